import { readdirSync, readlinkSync } from 'node:fs'
import type { Cli } from '../support/service/cli.ts'
import { ask } from '../support/service/http.ts'
import { type Metrics, metricsOf } from '../support/service/metrics.ts'
import { type Environment, type Owner, serving } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { eventually } from './eventually.ts'
import { type Findings, SoakFailure } from './findings.ts'
import { INSPECTOR_ENV, Inspector } from './inspector.ts'
import { LogReader } from './log-reader.ts'

const WORKERS = 2

/** What a process holds while it is quiet. */
export interface Vitals {
  /** After a garbage collection, over all threads. */
  readonly heapBytes: number
  readonly residentBytes: number
  /** Connections to the backend are not in it: how many are kept is the load's doing, and a metric tells. Undefined where the system does not tell. */
  readonly descriptors: number | undefined
}

/** A place for the built program: a port, and the processes that serve there one after the other. */
export class EdgeProcess {
  readonly port: number
  readonly #env: Environment
  readonly #owner: Owner
  #cli: Cli | undefined
  #log = new LogReader()
  /** Processes so far. */
  lives = 0
  /** Workers that were made to die in the present process. */
  deaths = 0

  private constructor(port: number, env: Environment, owner: Owner) {
    this.port = port
    this.#env = env
    this.#owner = owner
  }

  static async start(env: Environment, owner: Owner): Promise<EdgeProcess> {
    const edge = new EdgeProcess(await serverPort(), env, owner)
    await edge.start()
    return edge
  }

  async start(): Promise<void> {
    const env = { EDGE_WORKERS: String(WORKERS), EDGE_STORE_SIZE: '4m', EDGE_HEADERS_TIMEOUT_MS: '1000', ...INSPECTOR_ENV, ...this.#env }
    const cli = await serving({ EDGE_HOST: '127.0.0.1', ...env, EDGE_PORT: String(this.port) }, [], this.#owner)
    this.#cli = cli
    this.#log = new LogReader()
    this.lives++
    this.deaths = 0
    if (!cli.stdout.includes('listens')) throw new SoakFailure(`edge did not start: ${cli.stderr}`)
    await eventually('edge is ready', async () => (await ask(this.port, 'GET', '/readyz')).status === 200)
    // From the start, so that its descriptors are there whenever they are counted.
    await (await Inspector.open(cli, WORKERS)).close()
  }

  /** As a deployment does. */
  async stop(findings: Findings): Promise<void> {
    const status = await this.#cli!.stop()
    findings.equal('exit status at SIGTERM', status, 0)
    this.readLog(findings)
    this.#cli = undefined
  }

  /** As a crash does. */
  async kill(findings: Findings): Promise<void> {
    this.readLog(findings)
    await this.#cli!.stop('SIGKILL')
    this.#cli = undefined
  }

  metrics(): Promise<Metrics> {
    return metricsOf(this.port)
  }

  /** Done when another one serves in its place. */
  async endWorker(index: number, end: 'exit' | 'throw'): Promise<void> {
    const before = (await this.metrics()).sum('edge_worker_deaths_total')
    this.deaths++
    const inspector = await Inspector.open(this.#cli!, WORKERS)
    await inspector.endWorker(index, end)
    await inspector.close()
    const isReplaced = async (): Promise<boolean> => {
      const metrics = await this.metrics().catch(() => undefined)
      return metrics !== undefined && metrics.sum('edge_worker_deaths_total') > before && metrics.value('edge_workers') === WORKERS
    }
    await eventually('the worker is replaced', isReplaced, () => `The log ends with:\n${this.#cli!.stderr.slice(-1000)}`)
  }

  async vitals(): Promise<Vitals> {
    const inspector = await Inspector.open(this.#cli!, WORKERS)
    const heapBytes = await inspector.heapBytes()
    await inspector.close()
    let descriptors: number | undefined
    let last: number | undefined
    // What was closed a moment ago, the inspector's connection too, is counted out when two looks agree.
    await eventually('the number of descriptors is steady', async () => {
      last = descriptors
      const metrics = await this.metrics()
      descriptors = descriptorsOf(this.#cli!.process.pid!, metrics.value('edge_backend_connections'))
      return descriptors === last
    })
    const residentBytes = (await this.metrics()).value('process_resident_memory_bytes')
    return { heapBytes, residentBytes, descriptors }
  }

  /** What the log says since the last look and should not. */
  readLog(findings: Findings): void {
    if (this.#cli === undefined) return
    if (this.#cli.process.exitCode !== null && this.#cli.process.exitCode !== 0) {
      findings.note(`edge has ended with ${this.#cli.process.exitCode}`)
    }
    this.#log.read(this.#cli, findings)
    findings.atMost('workers that died', this.#log.workerDeaths, this.deaths)
  }
}

/** Undefined where there is no /proc. */
function descriptorsOf(pid: number, backendConnections: number): number | undefined {
  if (process.platform !== 'linux') return undefined
  const folder = `/proc/${pid}/fd`
  const kinds = readdirSync(folder).map((name) => kindOf(`${folder}/${name}`))
  return kinds.filter((kind) => kind !== 'gone').length - backendConnections
}

function kindOf(path: string): string {
  try {
    return readlinkSync(path).split(':')[0]!
  } catch {
    return 'gone'
  }
}
