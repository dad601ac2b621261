import type { EdgeProcess } from './edge-process.ts'
import { eventually } from './eventually.ts'

/** What is 0 when nothing is under way; where a mode has none of it, it is 0 as well. */
const GAUGES = [
  'edge_proxy_open_holds',
  'edge_proxy_open_requests',
  'edge_proxy_open_tunnels',
  'edge_proxy_open_streams',
  'edge_proxy_body_memory_bytes',
  'edge_proxy_waiting_uploads',
  'edge_llm_open_streams',
  'edge_redis_circuit_open',
]

/** Waits until nothing is under way any more, and only the question itself is connected. */
export async function quiet(edge: EdgeProcess): Promise<void> {
  let seen: string[] = []
  await eventually(
    'edge is quiet',
    async () => {
      const metrics = await edge.metrics()
      const connections = metrics.connections.reduce((sum, count) => sum + count, 0)
      seen = GAUGES.filter((gauge) => metrics.sum(gauge) !== 0).map((gauge) => `${gauge} is ${metrics.sum(gauge)}`)
      if (connections !== 1) seen.push(`connections of clients, this one included, are ${connections}`)
      return seen.length === 0
    },
    () => seen.join(', '),
  )
}
