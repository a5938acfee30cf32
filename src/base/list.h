/*
 * Doubly linked circular list, embedded in its elements.
 *
 *     head <-> element <-> element <-> head
 *
 * A link that is not in a list points to itself, so base_list_del() may be
 * called on it.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/math.h"

#include <stddef.h>

typedef struct base_list {
    struct base_list *next;
    struct base_list *prev;
} base_list_t;

static inline void base_list_init(base_list_t *link)
{
    link->next = link;
    link->prev = link;
}

static inline bool base_list_is_empty(const base_list_t *head)
{
    return head->next == head;
}

static inline void base_list_add_tail(base_list_t *head, base_list_t *link)
{
    link->next       = head;
    link->prev       = head->prev;
    head->prev->next = link;
    head->prev       = link;
}

static inline void base_list_add_head(base_list_t *head, base_list_t *link)
{
    base_list_add_tail(head->next, link);
}

/* Remove a link from its list, if it is in one. */
static inline void base_list_del(base_list_t *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    base_list_init(link);
}

/* Move a link to the end of a list. It may be in another list, or in none. */
static inline void base_list_move(base_list_t *head, base_list_t *link)
{
    base_list_del(link);
    base_list_add_tail(head, link);
}

/* Move all elements of one list to the end of another. */
static inline void base_list_splice_tail(base_list_t *head, base_list_t *from)
{
    if (!base_list_is_empty(from)) {
        from->next->prev = head->prev;
        from->prev->next = head;
        head->prev->next = from->next;
        head->prev       = from->prev;
        base_list_init(from);
    }
}

#define base_list_head(_head, _type, _member) \
    base_container_of((_head)->next, _type, _member)

static inline void *base_list_take(base_list_t *head, size_t offset)
{
    base_list_t *first = head->next;

    base_list_del(first);
    return (first == head) ? NULL : (char *)first - offset;
}

/* Remove and return the first element; NULL: the list is empty. */
#define base_list_pop(_head, _type, _member) \
    ((_type *)base_list_take(_head, offsetof(_type, _member)))

/* When base_list_for_each() ends without a break, _element does not point to an
 * element. Its link is the head of the list, and the pointer may even be
 * misaligned. Only the address of the link may be used. */
#define base_list_link(_element, _type, _member) \
    ((base_list_t *)((char *)(_element) + offsetof(_type, _member)))

#define base_list_next(_element, _type, _member) \
    base_container_of(base_list_link(_element, _type, _member)->next, _type, \
                      _member)

#define base_list_for_each(_element, _head, _type, _member) \
    for (_element = base_list_head(_head, _type, _member); \
         base_list_link(_element, _type, _member) != (_head); \
         _element = base_list_next(_element, _type, _member))

/* Set _element to the first element for which _condition is true, or to NULL if
 * no element matches. */
#define base_list_find(_element, _head, _type, _member, _condition) \
    do { \
        base_list_for_each(_element, _head, _type, _member) { \
            if (_condition) { \
                break; \
            } \
        } \
        if (base_list_link(_element, _type, _member) == (_head)) { \
            _element = NULL; \
        } \
    } while (0)

/* Like base_list_for_each(), but the loop body may remove the current
 * element. */
#define base_list_for_each_safe(_element, _next, _head, _type, _member) \
    for (_element = base_list_head(_head, _type, _member), \
        _next     = base_list_next(_element, _type, _member); \
         base_list_link(_element, _type, _member) != (_head); \
         _element = _next, _next = base_list_next(_next, _type, _member))

#endif
