import { ReplyError } from 'ioredis'
import type { Call, LinkError } from './call.ts'
import { Circuit } from './circuit.ts'
import { type ClusterMap, fetchClusterMap, hashSlot, readRedirection, SLOTS } from './cluster-map.ts'
import type { Probe } from './link-options.ts'
import { errorText } from './node-connection.ts'
import { type ClusterAddress, describeRedisAddress, type Endpoint, endpointText } from './redis-address.ts'
import { RedisNode } from './redis-node.ts'
import type { Servers, ServersOptions } from './servers.ts'

const MAX_REDIRECTIONS = 5
/** Enough to find a key for each of a thousand masters that share the slots. */
const MAX_PROBE_KEYS = 20_000
/** How long a node without slots, to which a slot is being moved, is kept after its last call. */
const IMPORTING_MS = 10_000

/**
 * The masters of a cluster. The map of slots is fetched at startup, after a MOVED reply, and repeatedly while a node is unreachable. A call
 * is sent to another node only if the first one replied that it does not serve the key.
 */
export class ClusterServers implements Servers {
  readonly #options: ServersOptions
  readonly #address: ClusterAddress
  /** Circuit of the cluster as a whole, which is open while a slot has no known master. */
  readonly #circuit: Circuit
  readonly #nodes = new Map<string, RedisNode>()
  readonly #importingMs = new Map<RedisNode, number>()
  /** Probe keys by node, for the current slots; undefined if the node serves none of our keys. */
  readonly #probeKeys = new Map<RedisNode, string | undefined>()
  #slots: (RedisNode | undefined)[] = new Array(SLOTS).fill(undefined)
  #members: readonly Endpoint[] = []
  #refreshing: Promise<void> | undefined
  readonly #closing = new AbortController()

  constructor(options: ServersOptions, address: ClusterAddress) {
    this.#options = options
    this.#address = address
    const name = describeRedisAddress(address)
    this.#circuit = new Circuit((isOpen, reason) => options.listener.onCircuit(name, isOpen, reason), this.#refresh, options.deadlines)
    this.#refresh()
  }

  groupOf(key: string): number {
    return hashSlot(key)
  }

  nodeOf(group: number): RedisNode | undefined {
    return this.#slots[group]
  }

  isWhole(): boolean {
    return !this.#circuit.isOpen && [...new Set(this.#slots)].every((node) => node?.isUsable)
  }

  probe(): void {
    for (const node of this.#nodes.values()) node.probeIfIdle()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#circuit.stop()
    await Promise.all([this.#refreshing, ...[...this.#nodes.values()].map((node) => node.close())])
  }

  readonly #refresh = (): void => {
    if (this.#closing.signal.aborted) return
    this.#refreshing ??= this.#fetchMap().finally(() => {
      this.#refreshing = undefined
    })
  }

  async #fetchMap(): Promise<void> {
    let failure = 'no node responds'
    for (const endpoint of this.#mapSources()) {
      try {
        const map = await fetchClusterMap(this.#address, endpoint, { signal: this.#closing.signal, deadlines: this.#options.deadlines })
        if (this.#closing.signal.aborted) return
        // A node that was reset or has not joined yet has an empty map, but others may know the slots.
        if (map.ranges.length === 0) throw new Error('its map has no slots')
        return this.#apply(map)
      } catch (error) {
        if (this.#closing.signal.aborted) return
        failure = errorText(error, this.#address)
        this.#options.listener.onError(error instanceof ReplyError ? 'reply' : 'connection', endpointText(endpoint), failure)
      }
    }
    if (this.#members.length === 0) this.#circuit.open(failure)
  }

  /** Puts usable nodes first, because one that was unreachable may have an old map. */
  #mapSources(): Endpoint[] {
    const rank = (endpoint: Endpoint) => (this.#nodes.get(endpointText(endpoint))?.isUsable ? 0 : 1)
    const members = [...this.#members].sort((a, b) => rank(a) - rank(b))
    return [...new Map([...members, ...this.#address.nodes].map((endpoint) => [endpointText(endpoint), endpoint])).values()]
  }

  #apply({ ranges, members }: ClusterMap): void {
    const slots: (RedisNode | undefined)[] = new Array(SLOTS).fill(undefined)
    for (const { first, last, master } of ranges) slots.fill(this.#nodeAt(master), first, last + 1)
    this.#slots = slots
    this.#probeKeys.clear()
    this.#members = members
    this.#retire(new Set(slots))
    const unserved = slots.filter((node) => node === undefined).length
    if (unserved > 0) this.#circuit.open(`${unserved} of ${SLOTS} slots have no master`)
    else if (this.#circuit.isOpen) this.#circuit.close('all slots are served')
    this.#options.onChange()
  }

  #retire(serving: ReadonlySet<RedisNode | undefined>): void {
    const importedSince = performance.now() - IMPORTING_MS
    for (const [name, node] of this.#nodes) {
      if (serving.has(node) || (this.#importingMs.get(node) ?? -Infinity) > importedSince) continue
      this.#nodes.delete(name)
      this.#importingMs.delete(node)
      void node.retire('it no longer serves any slots')
    }
  }

  #nodeAt(endpoint: Endpoint): RedisNode {
    const name = endpointText(endpoint)
    const known = this.#nodes.get(name)
    if (known !== undefined) return known
    const node: RedisNode = new RedisNode({
      ...this.#options,
      name,
      endpoint,
      probe: () => this.#probeOf(node),
      redirect: (call, refusal, message) => this.#redirect(call, refusal, message, endpoint),
      onTrouble: this.#refresh,
    })
    this.#nodes.set(name, node)
    return node
  }

  #probeOf(node: RedisNode): Probe | undefined {
    if (!this.#probeKeys.has(node)) this.#probeKeys.set(node, this.#findProbeKey(node))
    const key = this.#probeKeys.get(node)
    return key === undefined ? undefined : this.#options.probe(key)
  }

  /**
   * Finds a key that the node serves. The hash tag decides the slot; if the prefix has one, it wins over ours, and all keys belong to one
   * node.
   */
  #findProbeKey(node: RedisNode): string | undefined {
    for (let i = 0; i < MAX_PROBE_KEYS; i++) {
      const key = `${this.#options.prefix}probe:{${i}}`
      if (this.#slots[hashSlot(key)] === node) return key
    }
    return undefined
  }

  #redirect(call: Call, refusal: LinkError, message: string, from: Endpoint): void {
    const target = readRedirection(message, from)
    call.redirections += 1
    if (target === undefined || call.redirections > MAX_REDIRECTIONS) return call.fail(refusal)
    const node = this.#nodeAt(target.endpoint)
    const isAsking = refusal.code === 'ASK'
    if (isAsking) this.#importingMs.set(node, performance.now())
    else {
      this.#slots[target.slot] = node
      this.#probeKeys.clear()
      this.#refresh()
    }
    node.sendRedirected(call, isAsking, refusal)
  }
}
