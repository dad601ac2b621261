import { type ClusterMap, readClusterSlots } from './cluster-map.ts'
import type { Deadlines } from './deadlines.ts'
import { createNodeClient, endClient } from './node-client.ts'
import type { ClusterAddress, Endpoint } from './redis-address.ts'

const REPLY_MS = 1000

interface FetchOptions {
  readonly signal: AbortSignal
  readonly deadlines: Deadlines
}

/** Asks a node of a cluster for its map, over a connection of its own: the node need not be one that we use. */
export async function fetchClusterMap(
  address: ClusterAddress,
  endpoint: Endpoint,
  { signal, deadlines }: FetchOptions,
): Promise<ClusterMap> {
  const client = createNodeClient(address, endpoint)
  let cause: Error | undefined
  client.on('error', (error: Error) => {
    cause ??= error
  })
  const stop = (reason: string) => {
    cause ??= new Error(reason)
    client.disconnect()
    client.stream?.destroy()
  }
  const cancel = deadlines.after(REPLY_MS, () => stop(`no answer within ${REPLY_MS} ms`))
  const onAbort = () => stop('closed')
  signal.addEventListener('abort', onAbort)
  try {
    await client.connect()
    return readClusterSlots(await client.cluster('SLOTS'), endpoint)
  } catch (error) {
    // ioredis rejects with "Connection is closed", whatever closed it.
    throw cause ?? error
  } finally {
    cancel()
    signal.removeEventListener('abort', onAbort)
    await endClient(client)
  }
}
