import { Call, type Script } from './call.ts'
import { ClusterServers } from './cluster-servers.ts'
import { Departures } from './departures.ts'
import { LinkError } from './link-error.ts'
import { OneServer } from './one-server.ts'
import type { RedisAddress } from './redis-address.ts'
import type { Probe, RedisNode } from './redis-node.ts'

export type { Script } from './call.ts'
export { LinkError } from './link-error.ts'

export interface LinkOptions {
  readonly address: RedisAddress
  readonly timeoutMs: number
  /** Of all keys. */
  readonly prefix: string
  readonly listener: LinkListener
  /** A script call that tries, on a key of the failing node, what decisions do; used to find out whether a node is back. */
  readonly probe: (key: string) => Probe
}

/** `node` is a host and port, or the name that sentinels know the master by. */
export interface LinkListener {
  /** A node is known, and there is a circuit to it. */
  onNode(node: string): void
  onRoundTrip(seconds: number): void
  onError(kind: 'timeout' | 'connection' | 'reply', node: string, message: string): void
  /** `reason`: why it opened, or closed. */
  onCircuit(node: string, isOpen: boolean, reason: string): void
}

/** What the servers behind an address look like. */
export interface Servers {
  groupOf(key: string): number
  /** Undefined: nobody is known to serve that group. */
  nodeOf(group: number): RedisNode | undefined
  /** Whether decisions can be made on all keys. */
  isWhole(): boolean
  close(): Promise<void>
}

/** What servers are made with. */
export interface ServersOptions extends LinkOptions {
  readonly departures: Departures
  /** Something may have become whole. */
  readonly onChange: () => void
}

/** One worker's connection to Redis: one server, a Sentinel's master, or a cluster. No command is ever sent twice. */
export class RedisLink {
  readonly #departures: Departures
  readonly #servers: Servers
  readonly #firstUse = new Set<() => void>()
  #wasWhole = false
  #isClosed = false

  constructor(options: LinkOptions) {
    this.#departures = new Departures(options.timeoutMs)
    const { address } = options
    const serversOptions = { ...options, departures: this.#departures, onChange: () => this.#onChange() }
    this.#servers = address.kind === 'cluster' ? new ClusterServers(serversOptions, address) : new OneServer(serversOptions, address)
  }

  /** Keys of one group may be asked in one call: the hash slot in a cluster, else 0. */
  groupOf(key: string): number {
    return this.#servers.groupOf(key)
  }

  /** Whether the node of that group is to be asked at all: false while its circuit is open, or before the first connection. */
  isUsable(group: number): boolean {
    return this.#servers.nodeOf(group)?.isUsable ?? false
  }

  /** Runs a script on keys of one group. Rejects with a LinkError, at the latest after timeoutMs. Tries whatever the circuit says, if there is a connection. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<string> {
    return this.#start(keys[0]!, Call.ofScript(this.#departures, script, keys, args)) as Promise<string>
  }

  /** A plain command, same rules. */
  command(name: string, key: string, ...args: string[]): Promise<unknown> {
    return this.#start(key, new Call(this.#departures, name, [key, ...args]))
  }

  /** Done when decisions can be made with it for the first time, or after waitMs. */
  firstUse(waitMs: number): Promise<void> {
    if (this.#wasWhole || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#firstUse.delete(done)
        resolve()
      }
      const timer = setTimeout(done, waitMs)
      this.#firstUse.add(done)
    })
  }

  /** Calls without an answer are given up, their fate is unknown. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const call of this.#departures.close()) call.fail(new LinkError('unknown', 'closed', 'the link was closed'))
    for (const done of this.#firstUse) done()
    await this.#servers.close()
  }

  #start(key: string, call: Call): Promise<unknown> {
    const node = this.#servers.nodeOf(this.#servers.groupOf(key))
    if (node === undefined || this.#isClosed) call.fail(new LinkError('not_sent', 'not_connected', 'no server to ask'))
    else node.ask(call)
    return call.reply
  }

  #onChange(): void {
    if (this.#wasWhole || !this.#servers.isWhole()) return
    this.#wasWhole = true
    for (const done of this.#firstUse) done()
  }
}
