import type { Deadlines } from './deadlines.ts'
import type { LinkOptions } from './link-options.ts'
import type { RedisNode } from './redis-node.ts'
import type { WriteBatches } from './write-batches.ts'

/** The servers behind an address: one, or the masters of a cluster. */
export interface Servers {
  groupOf(key: string): number
  /** Undefined: no node is known to serve that group. */
  nodeOf(group: number): RedisNode | undefined
  /** Whether decisions can be made on all keys. */
  isWhole(): boolean
  close(): Promise<void>
}

export interface ServersOptions extends LinkOptions {
  readonly batches: WriteBatches
  readonly deadlines: Deadlines
  /** Called when `isWhole` may have changed. */
  readonly onChange: () => void
}
