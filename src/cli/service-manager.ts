import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Logger } from 'pino'
import type { Service } from '../runtime/service.ts'
import { printableText } from '../text/printable.ts'

const run = promisify(execFile)

/** Pings for each period of the watchdog. On a busy machine one may come late. */
const PINGS_PER_PERIOD = 3
/** Ends a call that hangs. `systemd-notify` itself gives up after five seconds. */
const TOO_LONG_MS = 10_000
/** What is added to the longest shutdown, for the steps that write files. */
const WRITING_MS = 30_000
const MAX_STATUS_CHARACTERS = 300

/**
 * Tells systemd how the process is doing, for units with `Type=notify`. The protocol is a datagram to a Unix socket. Node cannot send one, so each
 * message is sent by a short-lived process of systemd's own `systemd-notify`, and the unit needs `NotifyAccess=all`.
 */
export class ServiceManager {
  readonly #env: NodeJS.ProcessEnv
  readonly #logger: Logger
  /** Resolves when all messages so far have been sent, so that they arrive in order. */
  #sent = Promise.resolve()
  #reloadsInProgress = 0
  #isPinging = false
  #isStopping = false
  #isFailing = false

  constructor(env: NodeJS.ProcessEnv, logger: Logger) {
    this.#env = env
    this.#logger = logger
  }

  /** Reports that the ports are open and, to the watchdog, that the main thread is responsive from now on. */
  ready(service: Service): void {
    this.#send('READY=1', statusOf(service))
    const { WATCHDOG_USEC: periodUs, WATCHDOG_PID: pid } = this.#env
    if (periodUs === undefined || (pid !== undefined && pid !== String(process.pid))) return
    setInterval(() => void this.#ping(service), Number(periodUs) / 1000 / PINGS_PER_PERIOD).unref()
  }

  async reload(service: Service): Promise<void> {
    this.#reloadsInProgress++
    this.#send('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`)
    await service.reload().finally(() => {
      this.#reloadsInProgress--
      if (this.#reloadsInProgress === 0 && !this.#isStopping) this.#send('READY=1', statusOf(service))
    })
  }

  /** Reports the shutdown, and asks for the time that it may take at most. */
  stopping({ stopUpToMs }: Service): void {
    this.#isStopping = true
    const timeout = `EXTEND_TIMEOUT_USEC=${(stopUpToMs + WRITING_MS) * 1000}`
    this.#send('STOPPING=1', timeout, `STATUS=Shutting down, which takes up to ${Math.ceil(stopUpToMs / 1000)} s`)
  }

  /** Also keeps the status up to date, because a bundle may change without a reload. */
  async #ping(service: Service): Promise<void> {
    if (this.#isPinging) return
    this.#isPinging = true
    await this.#send('WATCHDOG=1', ...(this.#isStopping ? [] : [statusOf(service)]))
    this.#isPinging = false
  }

  #send(...assignments: string[]): Promise<void> {
    this.#sent = this.#sent.then(() => this.#notify(assignments))
    return this.#sent
  }

  /** A failure is logged once. It does not end the service; systemd does if it misses the message. */
  async #notify(assignments: string[]): Promise<void> {
    try {
      await notify(this.#env, assignments)
      this.#isFailing = false
    } catch (err) {
      if (!this.#isFailing) this.#logger.warn({ event: 'notify_failed', err }, 'systemd could not be told the state of the service')
      this.#isFailing = true
    }
  }
}

/** Has `systemctl status` say why a process exits, which it does not show of the log while the unit waits for its next attempt. */
export async function reportStartProblems(env: NodeJS.ProcessEnv, problems: readonly string[]): Promise<void> {
  // If this fails, the same sentences are in the log all the same.
  await notify(env, [statusText(`Cannot start: ${problems.join('; ')}`)]).catch(() => {})
}

async function notify({ NOTIFY_SOCKET, PATH }: NodeJS.ProcessEnv, assignments: readonly string[]): Promise<void> {
  // The secrets in the environment are none of its business.
  await run('systemd-notify', assignments, { env: { NOTIFY_SOCKET, PATH }, timeout: TOO_LONG_MS })
}

function statusOf(service: Service): string {
  const bundle = service.bundle()
  const problem = service.source()?.problem
  const state = bundle === undefined ? 'No bundle is loaded, every request gets 503' : `Serving by bundle version ${bundle.version}`
  return statusText(problem === undefined ? state : `${state}. The source of bundles: ${problem}`)
}

function statusText(text: string): string {
  return `STATUS=${printableText(text).slice(0, MAX_STATUS_CHARACTERS)}`
}
