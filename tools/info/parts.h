/*
 * The parts of the report, one file each.
 */
#ifndef INFO_PARTS_H
#define INFO_PARTS_H

#include "info/report.h"
#include "common/settings.h"

/* The version of the library and how this tool was built. */
void info_build_report(report_t *report);

/* What UCX is and what it can do here. False when it does nothing. */
bool info_ucx_report(report_t *report);

/* What the pool depends on: memory, huge pages, limits. */
void info_machine_report(report_t *report);

/*
 * The GPUs, and what the blocks of a pool on each would be. False when one does
 * not answer, or no pool is possible on it; the reason is told and reported.
 * That there is none is neither.
 */
bool info_gpu_report(report_t *report, const ucxpool_config_t *config);

/*
 * How much of its BAR1 a pool on each GPU may take, line by line. False when
 * one does not answer, or a setting is wrong; the reason is told and reported.
 */
bool info_budget_report(report_t *report, const ucxpool_config_t *config);

/*
 * What a pool with these settings looks like, and why: one is created, looked
 * at and destroyed. False when it cannot be; the reason is told and reported.
 *
 * self_test  Let it send a message through every region.
 */
bool info_pool_report(report_t *report, const ucxpool_config_t *config,
                      const settings_t *settings, bool self_test);

/*
 * What carries the bytes between two pools of this host: two small ones are
 * connected. False when they cannot be. Where the settings leave no blocks,
 * nothing does.
 */
bool info_wire_report(report_t *report, const settings_t *settings);

/*
 * How soon a peer that is gone is noticed, with each transport. False when UCX
 * does not start; the reason is reported.
 */
bool info_peers_report(report_t *report, const ucxpool_config_t *config,
                       const settings_t *settings);

/* Settings: for people those that are not at their defaults, for programs
 * all. */
void info_settings_report(report_t *report, const settings_t *settings);

#endif
