import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { RedisServer } from './redis-server.ts'
import { serverPorts } from './server-ports.ts'

export const MASTER_NAME = 'counters'
const SENTINELS = 3
const QUORUM = 2
/** How often they look at the servers and tell each other, by default ten and two seconds: what follows a failover waits for these. */
/** A master that is silent for so long is down: no machine stands still for as long. */
const DOWN_AFTER_MS = 60_000
/** When one has died, and is to be replaced. */
const SOON_DOWN_AFTER_MS = 1000
const PACE = ['info-period', '300', 'publish-period', '300', 'ask-period', '300'] as const

export interface SentinelOptions {
  readonly replicas?: number
}

/** A guarded master for as long as the test runs. */
export async function runningSentinels(options: SentinelOptions = {}, owner: Owner = thisTest): Promise<SentinelGroup> {
  const group = await SentinelGroup.start(options)
  owner.onTestFinished(() => group.close())
  return group
}

/** A master with its replicas, and three sentinels that put a replica in its place when it dies. */
export class SentinelGroup {
  /** The first is the master at first. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]

  private constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[]) {
    this.servers = servers
    this.sentinels = sentinels
  }

  /** `close` it in the end. */
  static async start({ replicas = 1 }: SentinelOptions = {}): Promise<SentinelGroup> {
    const allPorts = await serverPorts(SENTINELS + 1 + replicas)
    const ports = allPorts.slice(0, SENTINELS)
    const masterPort = allPorts[SENTINELS]
    const servers = await Promise.all(
      allPorts.slice(SENTINELS).map((port) =>
        RedisServer.start({
          port,
          // Replicas have all at once; by default a master waits five seconds for more of them.
          args: ['--repl-diskless-sync-delay', '0', ...(port === masterPort ? [] : ['--replicaof', `127.0.0.1 ${masterPort}`])],
        }),
      ),
    )
    const sentinels = await Promise.all(
      ports.map((port, index) =>
        RedisServer.start({
          port,
          files: { 'sentinel.conf': sentinelFile(index, ports, servers) },
          configFile: 'sentinel.conf',
          args: ['--sentinel'],
        }),
      ),
    )
    await Promise.all(sentinels.map((sentinel) => sentinel.command('SENTINEL', 'DEBUG', ...PACE)))
    const group = new SentinelGroup(servers, sentinels)
    await group.settled()
    return group
  }

  /** host:port of each sentinel. */
  get addresses(): readonly string[] {
    return this.sentinels.map(({ address }) => address)
  }

  /** The master that all sentinels name; undefined where they differ. */
  async masterPort(): Promise<number | undefined> {
    const named = await Promise.all(this.sentinels.filter(({ isRunning }) => isRunning).map(masterPortOf))
    return new Set(named).size === 1 ? named[0] : undefined
  }

  async master(): Promise<RedisServer> {
    const port = await this.masterPort()
    const master = this.servers.find((server) => server.port === port)
    if (master === undefined) throw new Error('the sentinels do not agree on a master')
    return master
  }

  /** Kills the master and waits until the sentinels have put another one in its place. Returns the dead one. */
  async killMaster(): Promise<RedisServer> {
    const dead = await this.master()
    await dead.stop()
    await this.#setDownAfter(SOON_DOWN_AFTER_MS)
    await this.#untilAnother(dead)
    await this.#setDownAfter(DOWN_AFTER_MS)
    return dead
  }

  /** The sentinels put another one in the place of a master that lives. */
  async failOver(): Promise<void> {
    const old = await this.master()
    // A sentinel that looked at a replica too long ago does not promote it yet.
    await until(() => this.sentinels[0]!.command('SENTINEL', 'FAILOVER', MASTER_NAME).then(Boolean, () => false))
    await this.#untilAnother(old)
  }

  /** Waits until the sentinels agree on a master that says so itself, know each other, and running replicas have what it has. */
  async settled(): Promise<void> {
    // A server that changes its role closes all connections, ours too.
    await until(() => this.#isSettled().catch(() => false))
  }

  async close(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.close()))
  }

  async #setDownAfter(ms: number): Promise<void> {
    const sentinels = this.sentinels.filter(({ isRunning }) => isRunning)
    await Promise.all(sentinels.map((sentinel) => sentinel.command('SENTINEL', 'SET', MASTER_NAME, 'down-after-milliseconds', ms)))
  }

  async #untilAnother(old: RedisServer): Promise<void> {
    await until(async () => {
      const port = await this.masterPort()
      return port !== undefined && port !== old.port
    })
    await this.settled()
  }

  async #isSettled(): Promise<boolean> {
    const port = await this.masterPort()
    const servers = this.servers.filter(({ isRunning }) => isRunning)
    const master = servers.find((server) => server.port === port)
    if (master === undefined || (await master.info('role')) !== 'master') return false
    const replicas = servers.filter((server) => server !== master)
    for (const replica of replicas) {
      if ((await replica.info('master_port')) !== String(port) || (await replica.info('master_link_status')) !== 'up') return false
    }
    for (const sentinel of this.sentinels.filter(({ isRunning }) => isRunning)) {
      await sentinel.command('SENTINEL', 'CKQUORUM', MASTER_NAME)
      if ((await promotable(sentinel)) < replicas.length) return false
    }
    return true
  }
}

async function masterPortOf(sentinel: RedisServer): Promise<number> {
  const [, port] = (await sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as readonly string[]
  return Number(port)
}

/** How many replicas this sentinel has seen well. */
async function promotable(sentinel: RedisServer): Promise<number> {
  const replicas = (await sentinel.command('SENTINEL', 'REPLICAS', MASTER_NAME)) as readonly (readonly string[])[]
  return replicas.filter((fields) => fieldOf(fields, 'flags') === 'slave' && fieldOf(fields, 'master-link-status') === 'ok').length
}

/** Names and values come in turn. */
function fieldOf(fields: readonly string[], name: string): string | undefined {
  return fields[fields.indexOf(name) + 1]
}

/** Each finds the others and the replicas in its file: by itself it would hear of them only after seconds. */
function sentinelFile(self: number, ports: readonly number[], [master, ...replicas]: readonly RedisServer[]): string {
  const others = ports.filter((_, index) => index !== self)
  return [
    `sentinel myid ${runId(self)}`,
    `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master!.port} ${QUORUM}`,
    `sentinel down-after-milliseconds ${MASTER_NAME} ${DOWN_AFTER_MS}`,
    // Also how long they wait after an election without a winner.
    `sentinel failover-timeout ${MASTER_NAME} 2000`,
    ...replicas.map(({ port }) => `sentinel known-replica ${MASTER_NAME} 127.0.0.1 ${port}`),
    ...others.map((port) => `sentinel known-sentinel ${MASTER_NAME} 127.0.0.1 ${port} ${runId(ports.indexOf(port))}`),
    '',
  ].join('\n')
}

function runId(index: number): string {
  return String(index + 1).repeat(40)
}
