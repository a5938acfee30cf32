/**
 * Sends and receives messages through libucxpool. Many pieces of memory and of
 * files are sent to another process as one message, packed into blocks that are
 * registered once.
 *
 * <p>A {@link org.ucxpool.Pool} has the blocks and executes the transfers. A
 * {@link org.ucxpool.Channel} is the connection to one peer, created by
 * {@link org.ucxpool.Pool#connect connect()} or accepted by a
 * {@link org.ucxpool.Listener}. A {@link org.ucxpool.Message} that has arrived
 * is received into {@link org.ucxpool.Buffer}s. A {@link org.ucxpool.Transfer}
 * is a send or receive in progress.
 *
 * <p>The library has no thread of its own: transfers advance only inside
 * {@link org.ucxpool.Pool#poll poll()} and the methods that wait. All methods
 * may be called from any thread.
 */
package org.ucxpool;
