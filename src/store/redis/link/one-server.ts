import { endpointText, type SentinelAddress, type SingleAddress } from './redis-address.ts'
import { RedisNode } from './redis-node.ts'
import type { Servers, ServersOptions } from './servers.ts'

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

  close(): Promise<void> {
    return this.#node.close()
  }
}
