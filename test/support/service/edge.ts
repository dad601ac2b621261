import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { hasEvents, readConfig } from '../../../src/config/config.ts'
import type { CallerReaderOf } from '../../../src/engine/active-plan.ts'
import { type Service, startService } from '../../../src/runtime/service.ts'
import type { StartOptions } from '../../../src/runtime/start-context.ts'
import type { WorkerHost } from '../../../src/runtime/threads/worker-host.ts'
import type { Deadlines } from '../../../src/store/redis/link/call.ts'
import { EventTap } from '../../../src/telemetry/events/published-events.ts'
import { type Clock, systemClock } from '../../../src/time/clock.ts'
import { replaceFile } from '../bundles/bundle-file.ts'
import { PROXY_WIRE } from '../run/proxy-wire.ts'
import { until } from '../until.ts'
import { type Answer, ask, type Fields } from './http.ts'
import { InlineHost } from './inline-host.ts'
import { metric } from './metrics.ts'
import { portOf } from './port-of.ts'

/** So long that no machine is so busy. A disk that hangs is tested with a process of its own. */
const AMPLE_MS = 120_000
/** No machine is so slow that a loopback connection takes longer. */
const CONNECT_TIMEOUT = { EDGE_BACKEND_CONNECT_TIMEOUT_MS: '600000' }
const DEFAULTS = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_STORE_SIZE: '1m', EDGE_WORKERS: '1', ...CONNECT_TIMEOUT }

export interface EdgeOptions {
  /** Written to a file of its own; none: the service starts without a bundle. */
  readonly bundle?: object | string
  /** Written beside it. */
  readonly signature?: string
  /** The bundle file's name decides its format. */
  readonly fileName?: string
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: Clock
  readonly pause?: StartOptions['pause']
  readonly interrupt?: AbortSignal
  readonly redisDeadlines?: Deadlines
  readonly readBundle?: StartOptions['readBundle']
  /** Says who sends a request, if the bundle has `CALLERS` of good-callers.ts: their key set is there, and has no keys. */
  readonly callerReaderOf?: CallerReaderOf
  /** Where workers live, told of the settings; else in this thread. */
  readonly newHost?: (env: Readonly<Record<string, string>>) => WorkerHost
  /** Stands between the service and where its workers live. */
  readonly aroundHost?: (host: WorkerHost) => WorkerHost
}

export interface OriginalRequest {
  readonly method?: string
  readonly uri?: string
  readonly host?: string
  readonly fields?: Fields
}

/** The whole service in this process, on a socket of its own, with a log that can be read. */
export class Edge {
  readonly service: Service
  readonly log: readonly Record<string, unknown>[]
  readonly directory: string
  readonly bundlePath: string
  #stopped: Promise<void> | undefined

  private constructor(service: Service, log: Record<string, unknown>[], directory: string, bundlePath: string) {
    this.service = service
    this.log = log
    this.directory = directory
    this.bundlePath = bundlePath
  }

  static async start(options: EdgeOptions = {}): Promise<Edge> {
    const directory = mkdtempSync(join(tmpdir(), 'edge-test-'))
    const bundlePath = join(directory, options.fileName ?? 'bundle.json')
    if (options.bundle !== undefined) await replaceFile(bundlePath, textOf(options.bundle))
    if (options.signature !== undefined) await replaceFile(`${bundlePath}.sig`, options.signature)
    const secrets = options.callerReaderOf && { EDGE_SECRETS_DIR: directory }
    if (secrets !== undefined) await replaceFile(join(directory, 'okta.json'), '{"keys":[]}')
    const env = { ...DEFAULTS, ...PROXY_WIRE, EDGE_CONFIG_FILE: bundlePath, ...secrets, ...options.env }
    const config = readConfig(env, {})
    if (!config.ok) throw new Error(config.problems.join('\n'))
    const log: Record<string, unknown>[] = []
    const { logLevel: level } = config.config
    const stream = { write: (line: string) => void log.push(JSON.parse(line)) }
    const tap = hasEvents(config.config) ? new EventTap(stream, level) : undefined
    const logger = pino({ level: tap?.level ?? level, timestamp: pino.stdTimeFunctions.isoTime }, tap ?? stream)
    const { clock = systemClock, pause, interrupt, redisDeadlines, readBundle } = options
    const host = options.newHost?.(env) ?? new InlineHost(config.config, logger, clock, redisDeadlines, options.callerReaderOf)
    try {
      const service = await startService(config.config, logger, options.aroundHost?.(host) ?? host, {
        clock,
        tap,
        diskTimeoutMs: AMPLE_MS,
        // Who holds it says when it is over.
        ...(pause === undefined && { firstBundleMs: AMPLE_MS }),
        ...(pause && { pause }),
        ...(interrupt && { interrupt }),
        ...(readBundle && { readBundle }),
        redisDeadlines,
      })
      return new Edge(service, log, directory, bundlePath)
    } catch (error) {
      rmSync(directory, { recursive: true })
      throw error
    }
  }

  get port(): number {
    return portOf(this.service.addresses.get('main')!)
  }

  /** To be asked for where EDGE_ADMIN_PORT is set. */
  get adminPort(): number {
    return portOf(this.service.addresses.get('admin')!)
  }

  /** To be asked for where EDGE_GRPC_PORT is set. */
  get grpcPort(): number {
    return portOf(this.service.addresses.get('grpc')!)
  }

  get(path: string, fields: Fields = []): Promise<Answer> {
    return ask(this.port, 'GET', path, fields)
  }

  post(path: string, fields: Fields = []): Promise<Answer> {
    return ask(this.port, 'POST', path, fields)
  }

  /** Asks /v1/decision about a request. */
  decide({ method = 'GET', uri = '/', host, fields = [] }: OriginalRequest = {}): Promise<Answer> {
    const originals: [string, string][] = [
      ['X-Original-Method', method],
      ['X-Original-URI', uri],
    ]
    if (host !== undefined) originals.push(['X-Original-Host', host])
    return this.post('/v1/decision', [...originals, ...fields])
  }

  /** Statuses of so many decisions, one after the other. */
  async decideTimes(times: number, request: OriginalRequest = {}): Promise<number[]> {
    const statuses: number[] = []
    for (let i = 0; i < times; i++) statuses.push((await this.decide(request)).status)
    return statuses
  }

  /** Replaces the bundle file in one step and waits until the service has dealt with it. */
  async publish(bundle: object | string): Promise<void> {
    const seen = this.log.length
    await replaceFile(this.bundlePath, textOf(bundle))
    await until(() =>
      this.log.slice(seen).some(({ event }) => event === 'bundle_applied' || event === 'bundle_refused' || event === 'bundle_unchanged'),
    )
  }

  /** The log's entries of this kind. */
  logged(name: string): Record<string, unknown>[] {
    return this.log.filter(({ event }) => event === name)
  }

  metric(series: string): Promise<number> {
    return metric(this.port, series)
  }

  stop(): Promise<void> {
    this.#stopped ??= this.service.stop('test').then(() => rmSync(this.directory, { recursive: true }))
    return this.#stopped
  }
}

function textOf(bundle: object | string): string {
  return typeof bundle === 'string' ? bundle : JSON.stringify(bundle)
}
