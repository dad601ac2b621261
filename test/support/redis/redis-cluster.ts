import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { RedisServer } from './redis-server.ts'
import type { RedisReply } from './resp.ts'
import { serverPorts } from './server-ports.ts'

const MASTERS = 3
const SLOTS = 16_384
/** So long that no machine stands still for as long: nobody is replaced who lives. */
const NODE_TIMEOUT_MS = 60_000
/** While one is to be replaced. */
const SHORT_NODE_TIMEOUT_MS = 1500

/** A cluster for as long as the test runs. */
export async function runningCluster(owner: Owner = thisTest): Promise<RedisCluster> {
  const cluster = await RedisCluster.start()
  owner.onTestFinished(() => cluster.close())
  return cluster
}

/** A master that was killed, and who is to take its place. */
export interface DeadMaster {
  /** It can be started again. */
  readonly server: RedisServer
  readonly slot: number
  readonly replica: RedisServer
}

interface Seat {
  readonly id: string
  readonly port: number
  readonly busPort: number
}

/** Three masters and a replica for each. */
export class RedisCluster {
  /** The first three are masters at first, the other three their replicas in the same order. */
  readonly nodes: readonly RedisServer[]
  readonly #ids: readonly string[]

  private constructor(nodes: readonly RedisServer[], ids: readonly string[]) {
    this.nodes = nodes
    this.#ids = ids
  }

  /** `close` it in the end. */
  static async start(): Promise<RedisCluster> {
    const ports = await serverPorts(4 * MASTERS)
    const seats = Array.from({ length: 2 * MASTERS }, (_, i): Seat => {
      return { id: String(i + 1).repeat(40), port: ports[2 * i]!, busPort: ports[2 * i + 1]! }
    })
    const nodes = await Promise.all(seats.map((seat) => startNode(seat, seats)))
    const cluster = new RedisCluster(
      nodes,
      seats.map(({ id }) => id),
    )
    await cluster.settled()
    return cluster
  }

  /** host:port of each node. */
  get addresses(): readonly string[] {
    return this.nodes.map(({ address }) => address)
  }

  async slotOf(key: string): Promise<number> {
    return (await this.#someNode().command('CLUSTER', 'KEYSLOT', key)) as number
  }

  /** Those who serve now. */
  async masters(): Promise<RedisServer[]> {
    const nodes = this.#running()
    const roles = await Promise.all(nodes.map((node) => node.info('role')))
    return nodes.filter((_, i) => roles[i] === 'master')
  }

  /** Who serves the slot, as it says itself. */
  async masterOf(slot: number): Promise<RedisServer> {
    for (const node of this.#running()) if (await serves(node, slot)) return node
    throw new Error(`slot ${slot} has no master`)
  }

  async replicaOf(master: RedisServer): Promise<RedisServer> {
    for (const node of this.#running()) {
      if ((await node.info('role')) === 'slave' && (await node.info('master_port')) === String(master.port)) return node
    }
    throw new Error(`the master on port ${master.port} has no replica`)
  }

  /** Waits until the running nodes agree on who serves what, find every slot served, and replicas have what their masters have. */
  async settled(): Promise<void> {
    await until(async () => {
      const nodes = this.#running()
      const views = new Set(await Promise.all(nodes.map(viewOf)))
      return views.size === 1 && (await Promise.all(nodes.map(isWell))).every(Boolean)
    })
  }

  /** Kills who serves the slot. Its replica serves when it is `replaced`. */
  async killMaster(slot: number): Promise<DeadMaster> {
    const server = await this.masterOf(slot)
    const replica = await this.replicaOf(server)
    await server.stop()
    await this.#setNodeTimeout(SHORT_NODE_TIMEOUT_MS)
    return { server, slot, replica }
  }

  /** Waits until the replica serves, and all know it. */
  async replaced({ slot, replica }: DeadMaster): Promise<void> {
    await until(() => serves(replica, slot))
    await this.settled()
    await this.#setNodeTimeout(NODE_TIMEOUT_MS)
  }

  /** Hands the slot's master's work over to its replica, as for maintenance: nothing is lost. */
  async failOver(slot: number): Promise<void> {
    const replica = await this.replicaOf(await this.masterOf(slot))
    let askedMs = Number.NEGATIVE_INFINITY
    await this.#setNodeTimeout(SHORT_NODE_TIMEOUT_MS)
    await until(async () => {
      if (await serves(replica, slot)) return true
      // Masters do not vote about one of them twice within two node timeouts, and a vote that was lost is not repeated by itself.
      if (performance.now() - askedMs < SHORT_NODE_TIMEOUT_MS) return false
      askedMs = performance.now()
      return replica.command('CLUSTER', 'FAILOVER').then(
        () => false,
        () => false,
      )
    })
    await this.settled()
    await this.#setNodeTimeout(NODE_TIMEOUT_MS)
  }

  /** From now on the slot is moving: the old master replies ASK for keys that it does not have. */
  async beginMigration(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot)
    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', this.#idOf(from))
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', this.#idOf(to))
  }

  /** Moves the keys that are in the slot now. */
  async moveKeys(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot)
    for (;;) {
      const keys = (await from.command('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]
      if (keys.length === 0) return
      await from.command('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys)
    }
  }

  /** From now on the old master replies MOVED. */
  async endMigration(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot)
    for (const node of [to, from]) await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', this.#idOf(to))
    await this.settled()
  }

  async migrateSlot(slot: number, to: RedisServer): Promise<void> {
    await this.beginMigration(slot, to)
    await this.moveKeys(slot, to)
    await this.endMigration(slot, to)
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()))
  }

  async #setNodeTimeout(ms: number): Promise<void> {
    await Promise.all(this.#running().map((node) => node.command('CONFIG', 'SET', 'cluster-node-timeout', ms)))
  }

  #idOf(node: RedisServer): string {
    return this.#ids[this.nodes.indexOf(node)]!
  }

  #running(): RedisServer[] {
    return this.nodes.filter(({ isRunning }) => isRunning)
  }

  #someNode(): RedisServer {
    return this.#running()[0]!
  }
}

/** Each finds the whole cluster in its file, as after a restart, and needs no CLUSTER MEET. */
async function startNode(seat: Seat, seats: readonly Seat[]): Promise<RedisServer> {
  return RedisServer.start({
    port: seat.port,
    files: { 'nodes.conf': nodesFile(seat, seats) },
    args: [
      ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-port', String(seat.busPort)],
      ...['--cluster-node-timeout', String(NODE_TIMEOUT_MS), '--cluster-replica-validity-factor', '0'],
      // Else all masters refuse as soon as they miss one: a test that looks at the others would have to be faster than that.
      ...['--cluster-require-full-coverage', 'no'],
      // Replicas have all at once; by default a master waits five seconds for more of them.
      ...['--repl-diskless-sync-delay', '0'],
    ],
  })
}

function nodesFile(self: Seat, seats: readonly Seat[]): string {
  const lines = seats.map((seat, index) => {
    const place = index % MASTERS
    const isMaster = index < MASTERS
    const flags = [...(seat === self ? ['myself'] : []), isMaster ? 'master' : 'slave'].join(',')
    const slots = isMaster ? ` ${firstSlot(place)}-${firstSlot(place + 1) - 1}` : ''
    const { id, port, busPort } = seat
    return `${id} 127.0.0.1:${port}@${busPort} ${flags} ${isMaster ? '-' : seats[place]!.id} 0 0 ${place + 1} connected${slots}`
  })
  return `${lines.join('\n')}\nvars currentEpoch ${MASTERS} lastVoteEpoch 0\n`
}

function firstSlot(place: number): number {
  return Math.floor((place * SLOTS) / MASTERS)
}

type SlotRange = readonly [first: number, last: number, master: readonly RedisReply[], ...replicas: readonly RedisReply[]]

async function slotRanges(node: RedisServer): Promise<readonly SlotRange[]> {
  return (await node.command('CLUSTER', 'SLOTS')) as unknown as readonly SlotRange[]
}

async function serves(node: RedisServer, slot: number): Promise<boolean> {
  const ranges = await slotRanges(node)
  return ranges.some(([first, last, [, port]]) => first <= slot && slot <= last && port === node.port)
}

/** Who serves what, in the eyes of this node. */
async function viewOf(node: RedisServer): Promise<string> {
  const ranges = (await slotRanges(node)).map(([first, last, [, port]]) => ({ first, last, port }))
  return JSON.stringify(ranges.sort((a, b) => a.first - b.first))
}

async function isWell(node: RedisServer): Promise<boolean> {
  const state = (await node.command('CLUSTER', 'INFO')) as string
  if (!state.includes('cluster_state:ok') || !state.includes(`cluster_slots_ok:${SLOTS}`)) return false
  return (await node.info('role')) === 'master' || (await node.info('master_link_status')) === 'up'
}
