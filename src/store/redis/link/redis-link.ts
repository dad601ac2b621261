import { Call, type Deadlines, LinkError, realDeadlines, type Script, type ScriptArgument } from './call.ts'
import { ClusterServers } from './cluster-servers.ts'
import type { LinkOptions } from './link-options.ts'
import { OneServer, type Servers } from './servers.ts'
import { WriteBatches } from './write-batches.ts'

/**
 * One worker's connection to Redis: one server, a Sentinel's master, or a cluster. A command is sent again only if Redis replied that it
 * did not run it.
 */
export class RedisLink {
  readonly #deadlines: Deadlines
  readonly #batches: WriteBatches
  readonly #servers: Servers
  readonly #firstUse = new Set<() => void>()
  #wasWhole = false
  #isClosed = false

  constructor(options: LinkOptions) {
    const { address, timeoutMs, deadlines = realDeadlines } = options
    this.#deadlines = deadlines
    this.#batches = new WriteBatches(timeoutMs, deadlines)
    const serversOptions = { ...options, deadlines, batches: this.#batches, onChange: () => this.#onChange() }
    this.#servers = address.kind === 'cluster' ? new ClusterServers(serversOptions, address) : new OneServer(serversOptions, address)
  }

  /** Returns the group of a key: its hash slot in a cluster, else 0. Keys of one group can be used in one call. */
  groupOf(key: string): number {
    return this.#servers.groupOf(key)
  }

  /** Returns whether the node of that group should be called: false while its circuit is open, and before the first connection. */
  isUsable(group: number): boolean {
    return this.#servers.nodeOf(group)?.isUsable ?? false
  }

  /**
   * Runs a script on keys of one group, even if the circuit is open, as long as there is a connection. Rejects with a LinkError after
   * timeoutMs at the latest.
   */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    return this.#send(keys[0]!, new Call(script, keys, args))
  }

  /** Sends a plain command, under the same rules as `run`. */
  command(name: string, key: string, ...args: string[]): Promise<unknown> {
    return this.#send(key, Call.ofCommand(name, [key, ...args]))
  }

  /** Finds out now whether Redis still answers, and opens the circuits of nodes that do not. */
  probe(): void {
    this.#servers.probe()
  }

  /** Resolves when Redis can serve decisions for the first time, or after waitMs. */
  firstUse(waitMs: number): Promise<void> {
    if (this.#wasWhole || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        cancel()
        this.#firstUse.delete(done)
        resolve()
      }
      const cancel = this.#deadlines.after(waitMs, done)
      this.#firstUse.add(done)
    })
  }

  /** Closes all connections. Pending calls fail with an unknown outcome. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const call of this.#batches.close()) call.fail(new LinkError('unknown', 'closed', 'the link was closed'))
    for (const done of this.#firstUse) done()
    await this.#servers.close()
  }

  #send(key: string, call: Call): Promise<unknown> {
    const node = this.#servers.nodeOf(this.#servers.groupOf(key))
    if (node === undefined || this.#isClosed) call.fail(new LinkError('not_sent', 'not_connected', 'no server to ask'))
    else node.send(call)
    return call.reply
  }

  #onChange(): void {
    if (this.#wasWhole || !this.#servers.isWhole()) return
    this.#wasWhole = true
    for (const done of this.#firstUse) done()
  }
}
