/**
 * Messages through libucxpool: many pieces of memory and of files go to another
 * process as one message, packed into blocks that are registered once.
 *
 * <p>A {@link org.ucxpool.Pool} holds the blocks and moves everything. A
 * {@link org.ucxpool.Channel} is the connection to one peer, made by
 * {@link org.ucxpool.Pool#connect connect()} or taken from a
 * {@link org.ucxpool.Listener}. A {@link org.ucxpool.Message} that has arrived
 * is received into {@link org.ucxpool.Buffer}s, a {@link org.ucxpool.Transfer}
 * is one send or receive under way.
 *
 * <p>Nothing moves but inside {@link org.ucxpool.Pool#poll poll()} and the
 * methods that wait: there is no hidden thread. All methods may be called from
 * any thread.
 */
package org.ucxpool;
