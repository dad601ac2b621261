import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import type { Logger } from 'pino'
import { readInThread } from '../bundle/read-in-thread.ts'
import { hasEvents, readConfig } from '../config/config.ts'
import type { Setting } from '../config/config-values.ts'
import { SETTINGS, unknownVariables, unknownVariableText } from '../config/settings.ts'
import { workerHeapMib } from '../memory/container-memory.ts'
import { StartInterrupted } from '../runtime/listening.ts'
import { type Service, startService } from '../runtime/service.ts'
import { ThreadHost } from '../runtime/threads/thread-host.ts'
import { newPartialLineFlag, openLog } from '../telemetry/logger.ts'
import { printStartProblems } from './file-problem.ts'
import { greeting } from './greeting.ts'
import type { ServiceManager } from './service-manager.ts'

/** Starts the service and returns; the listening sockets keep the process alive. */
export async function serve(args: string[]): Promise<number> {
  const flags = await readFlags(args)
  if (typeof flags === 'number') return flags
  const result = readConfig(process.env, flags)
  // A misspelled variable may be why another one is missing.
  if (!result.ok) return cannotStart([...result.problems, ...unknownVariables(process.env).map(unknownVariableText)])
  const { config } = result
  void process.stderr // accessing it makes Node set its descriptor to non-blocking
  const partialLine = newPartialLineFlag()
  const { logger, tap } = openLog(config.logLevel, hasEvents(config), partialLine)
  process.on('uncaughtException', (err) => {
    logger.fatal({ event: 'crashed', err }, 'edge crashed')
    process.exit(1)
  })
  const manager = await serviceManager(logger)
  keepIdleCode()
  const interrupt = new AbortController()
  const host = new ThreadHost({ env: { ...process.env }, flags }, partialLine, workerHeapMib(config.storeBytes, config.workers))
  const running = startService(config, logger, host, { interrupt: interrupt.signal, readBundle: readInThread, tap })
  stopOnSignals(running, interrupt, manager)
  process.on('SIGHUP', () => void running.then((service) => manager?.reload(service) ?? service.reload(), ignore))
  try {
    const service = await running
    manager?.ready(service)
    boundHeapGrowth()
    process.stdout.on('error', () => {}) // a closed stdout is no reason to stop serving
    process.stdout.write(greeting(config, service))
    return 0
  } catch (error) {
    if (error instanceof StartInterrupted) process.exit(0)
    const { startProblem } = await import('./start-problem.ts')
    const problem = startProblem(config, error as Error)
    if (problem === undefined) throw error
    await cannotStart([problem])
    // Files may already be watched, which keeps the process alive.
    process.exit(1)
  }
}

/** Returns the exit status. */
async function cannotStart(problems: readonly string[]): Promise<number> {
  const status = printStartProblems('edge', problems)
  if (process.env['NOTIFY_SOCKET']) await (await import('./service-manager.ts')).reportStartProblems(process.env, problems)
  return status
}

/** Returns undefined unless systemd wants to be told. */
async function serviceManager(logger: Logger): Promise<ServiceManager | undefined> {
  if (!process.env['NOTIFY_SOCKET']) return undefined
  const { ServiceManager } = await import('./service-manager.ts')
  return new ServiceManager(process.env, logger)
}

async function readFlags(args: string[]): Promise<Record<string, string | undefined> | number> {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string }> = { help: { type: 'boolean', short: 'h' } }
  for (const { flag } of Object.values<Setting<unknown>>(SETTINGS)) if (flag !== undefined) options[flag] = { type: 'string' }
  try {
    const { help, ...flags } = parseArgs({ args, options }).values
    if (!help) return flags as Record<string, string>
    process.stdout.write((await import('./help.ts')).SERVE_HELP)
    return 0
  } catch (error) {
    const [{ SERVE_HELP }, { argumentProblem }] = await Promise.all([import('./help.ts'), import('./usage-problem.ts')])
    const problem = argumentProblem(error, 'serve', SERVE_HELP)
    if (problem === undefined) throw error
    return printStartProblems('edge', [problem])
  }
}

// Under `npm start`, one Ctrl-C arrives twice: from the terminal, and forwarded by npm.
const ECHO_MS = 100

/** The first signal drains and stops; a second one stops at once. */
function stopOnSignals(running: Promise<Service>, interrupt: AbortController, manager: ServiceManager | undefined): void {
  let first: { readonly signal: string; readonly atMs: number } | undefined
  let started: Service | undefined
  running.then((service) => {
    started = service
  }, ignore)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      const atMs = performance.now()
      if (first === undefined) {
        first = { signal, atMs }
        interrupt.abort(signal)
        if (started !== undefined) manager?.stopping(started)
        void running.then((service) => service.stop(signal).then(() => exit(0, service)), ignore)
      } else if (first.signal !== 'SIGINT' || signal !== 'SIGINT' || atMs - first.atMs > ECHO_MS) {
        exit(1, started)
      }
    })
  }
}

/** A failed start is reported where it is awaited. */
function ignore(): void {}

/** A thread that waits for a disk would block even process.exit, so the process kills itself then. */
function exit(status: number, service: Service | undefined): never {
  if (service?.waitsForDisk()) process.kill(process.pid, 'SIGKILL')
  process.exit(status)
}

/**
 * When little goes on, V8 collects garbage once more to give memory back, and forgets the shapes of objects of which there are none at that moment,
 * with all code that was optimized for them. To a proxy between two requests that is much of the code of an LLM request. The flag applies to threads
 * that start later: the workers keep their code.
 */
function keepIdleCode(): void {
  setFlagsFromString('--no-memory-reducer')
}

/** How far the heap may grow beyond what was in use after the last collection before the next one starts. */
const GROWTH_PERCENT = 30

/**
 * Each new bundle leaves the previous plan behind as garbage, in each worker. If memory is plentiful, V8 lets a heap grow to four times what is in
 * use before it collects the old generation: a service that needs 300 MB went up to 2 GB and back. Collecting earlier costs little, because it runs
 * beside the serving thread, which creates few long-lived objects. The flag applies to all threads from then on. It must not be set before the start
 * is over: what a start loads stays in use, and repeated collections took a tenth of its time.
 */
export function boundHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`)
}
