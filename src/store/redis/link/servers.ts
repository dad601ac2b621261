import type { Deadlines } from './call.ts'
import type { LinkOptions } from './link-options.ts'
import { endpointText, type SentinelAddress, type SingleAddress } from './redis-address.ts'
import { RedisNode } from './redis-node.ts'
import type { WriteBatches } from './write-batches.ts'

/** The servers behind an address: one, or the masters of a cluster. */
export interface Servers {
  groupOf(key: string): number
  /** Returns undefined if no node is known to serve that group. */
  nodeOf(group: number): RedisNode | undefined
  /** Returns whether decisions can be made on all keys. */
  isWhole(): boolean
  /** Probes the nodes that nobody is waiting for. */
  probe(): void
  close(): Promise<void>
}

export interface ServersOptions extends LinkOptions {
  readonly batches: WriteBatches
  readonly deadlines: Deadlines
  /** Called when `isWhole` may have changed. */
  readonly onChange: () => void
}

/** A single server, or the master that sentinels name: it serves all keys. */
export class OneServer implements Servers {
  readonly #node: RedisNode

  constructor(options: ServersOptions, address: SingleAddress | SentinelAddress) {
    const endpoint = address.kind === 'single' ? address.node : undefined
    this.#node = new RedisNode({
      ...options,
      name: address.kind === 'sentinel' ? address.name : endpointText(endpoint!),
      endpoint,
      probe: () => options.probe(`${options.prefix}probe:{0}`),
      redirect: undefined,
      onTrouble: () => {},
    })
  }

  groupOf(): number {
    return 0
  }

  nodeOf(): RedisNode {
    return this.#node
  }

  isWhole(): boolean {
    return this.#node.isUsable
  }

  probe(): void {
    this.#node.probeIfIdle()
  }

  close(): Promise<void> {
    return this.#node.close()
  }
}
