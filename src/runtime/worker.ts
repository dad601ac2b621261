import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { credentialReaders } from '../callers/credential-reader.ts'
import { KeySet } from '../callers/jwt/key-set.ts'
import { PROXY_WAIT_MS, QUESTION_WAIT_MS, WorkerKeySets } from '../callers/key-sets/worker-key-sets.ts'
import { IssuedKeys } from '../callers/keys/issued-keys.ts'
import { hasEvents } from '../config/config.ts'
import { type FleetNews, resultOf, type WorkerHandlers } from '../control/control-calls.ts'
import { ControlLink } from '../control/control-link.ts'
import { WorkerEvents } from '../control/events/worker-events.ts'
import type { ToWorker } from '../control/thread-messages.ts'
import { DecisionLines } from '../decision-log/decision-lines.ts'
import type { UnsettledAmount } from '../engine/unsettled.ts'
import type { ListenerServers } from '../listen/listener-servers.ts'
import { WorkerSecrets } from '../secrets/worker-secrets.ts'
import { tagWords } from '../store/counter-locator.ts'
import type { OpenAmount } from '../store/state/open-amounts.ts'
import { CounterFamily, type Series } from '../telemetry/metrics/metric-families.ts'
import { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import type { WorkerTls } from '../tls/worker-tls.ts'
import { WorkerDecisionLog } from './decision-log/worker-decision-log.ts'
import { openTracing, TRACES_CLOSE_MS } from './open-tracing.ts'
import { loadServerCode } from './server-code.ts'
import { WorkerUsageLog } from './usage-log/worker-usage-log.ts'
import {
  newWorkerEngine,
  openWorkerStore,
  type WorkerContext,
  type WorkerEngine,
  type WorkerParts,
  WorkerPlans,
  type WorkerStore,
} from './worker-engine.ts'
import { newWorkerServers } from './worker-servers.ts'

/** The composition root of a worker: how it starts, phase by phase, and how it handles the supervisor's messages. */

/** How long `top` may wait for callers' counters. The main thread waits a little longer for the worker's answer. */
const LOOK_MS = 500

/** The parts that are open while a worker runs. */
interface OpenWorker {
  readonly context: WorkerContext
  /** Undefined if tracing is off. */
  readonly tracing: Tracing | undefined
  readonly counters: WorkerStore
  /** Undefined if nobody can watch events. */
  readonly events: WorkerEvents | undefined
  readonly decider: WorkerEngine
  readonly plans: WorkerPlans
  /** The key sets that verify tokens. */
  readonly keySets: WorkerKeySets<KeySet>
  /** The secrets that are inserted into header fields of backends. */
  readonly secrets: WorkerSecrets
  /** Undefined if there are no certificates. */
  readonly tls: WorkerTls | undefined
  /** Undefined if EDGE_DECISION_LOG is not set. */
  readonly decisionLog: WorkerDecisionLog | undefined
  /** Undefined if EDGE_USAGE_DIR is not set. */
  readonly usageLog: WorkerUsageLog | undefined
  readonly servers: ListenerServers
  readonly vitals: Vitals
}

/** A serving thread: an engine and its listeners, on the memory that all threads share. It is driven by the supervisor's messages. */
export class Worker {
  readonly #open: OpenWorker
  readonly #calls: WorkerHandlers

  private constructor(open: OpenWorker) {
    this.#open = open
    this.#calls = workerCalls(open)
  }

  static async start(parts: WorkerParts): Promise<Worker> {
    const context = newContext(parts)
    const [code, tracing] = await Promise.all([loadServerCode(context.config), openTracing(context.config, context)])
    const counters = await openWorkerStore(context)
    const events = newEvents(context)
    const keySets = newKeySets(context)
    const secrets = new WorkerSecrets()
    const tls = code.WorkerTls && new code.WorkerTls(context.config, context.metricMemory)
    const issuedKeys = new IssuedKeys(context.memory.keys)
    const callerReaderOf = context.callerReaderOf ?? credentialReaders({ ...context, keySets, issuedKeys })
    const decider = newWorkerEngine(context, counters.store, callerReaderOf)
    // In decision_service, gateways settle, before a crash or after it.
    if (context.config.mode === 'reverse_proxy') counters.fleet?.reportOpen(decider.engine, context.worker)
    const plans = new WorkerPlans(decider, context.send)
    const decisionLog = newDecisionLog(context, decider)
    const usageLog = context.config.usageDir === undefined ? undefined : new WorkerUsageLog({ ...context, ...decider })
    const logs = { decisionLog, usageLog }
    const servers = newWorkerServers(context, { code, counters, decider, plans, tracing, events, ...logs, issuedKeys, secrets, tls })
    const vitals = new Vitals(context.metricMemory, context.worker)
    return new Worker({ context, tracing, counters, events, decider, plans, keySets, secrets, tls, ...logs, servers, vitals })
  }

  async onMessage(message: ToWorker): Promise<void> {
    const { context, counters, events, plans, keySets, secrets, tls, decisionLog, usageLog, servers } = this.#open
    switch (message.type) {
      case 'ip_file':
        return plans.useIpFile(message.file)
      case 'prepare':
        return plans.prepare(message)
      case 'plan_active':
        return plans.noteActive()
      case 'get_ready':
        context.send({ type: 'up' })
        await Promise.all([plans.prepared, counters.fleet?.firstUse()])
        // Whoever starts later was not told of the plan that is active already.
        plans.noteActive()
        return context.send({ type: 'ready' })
      case 'listen':
        return this.#listen(message)
      case 'fleet':
        return this.#noteFleet(message.news)
      case 'probe_redis':
        return counters.fleet?.probe()
      case 'overrides':
        return plans.changeOverrides(message.change)
      case 'key_sets':
        return keySets.note(message.change)
      case 'secrets':
        return secrets.note(message.secrets)
      case 'tls':
        return tls?.note(message.material)
      case 'control_answer':
        return context.control.note(message.call, message.result)
      case 'worker_call':
        return this.#answer(message)
      case 'events':
        return events?.deliver(message.events)
      case 'events_taken':
        return events?.noteTaken()
      case 'decision_lines_taken':
        return decisionLog?.noteTaken()
      case 'usage_lines_taken':
        return usageLog?.noteTaken()
      case 'drain':
        return servers.drain()
      case 'close':
        return this.#close()
    }
  }

  /** Requests end first, so that the spans, events and log lines they leave behind are part of what is sent last. */
  async #close(): Promise<void> {
    const { context, tracing, counters, events, decider, decisionLog, usageLog, servers, vitals } = this.#open
    vitals.stop()
    decider.stop()
    await servers.close()
    await counters.fleet?.close(decider.engine.settled())
    await tracing?.close(TRACES_CLOSE_MS)
    events?.flush()
    decisionLog?.flush()
    usageLog?.flush()
    context.send({ type: 'closed' })
  }

  #noteFleet(news: FleetNews): void {
    const { counters, decider } = this.#open
    if (news.digestKey !== undefined) decider.digest.useKey(news.digestKey)
    counters.fleet?.note(news)
  }

  async #answer({ call, name, ask }: ToWorker & { type: 'worker_call' }): Promise<void> {
    const handle = this.#calls[name] as (ask: unknown) => unknown
    this.#open.context.send({ type: 'worker_answer', call, result: await resultOf(() => handle(ask)) })
  }

  async #listen({ listener, target }: ToWorker & { type: 'listen' }): Promise<void> {
    const { context, servers } = this.#open
    try {
      context.send({ type: 'listening', listener, address: await servers.listen(listener, target) })
    } catch (error) {
      const { message, code, syscall } = error as NodeJS.ErrnoException
      context.send({ type: 'cannot_listen', listener, error: { message, code, syscall } })
    }
  }
}

function newContext(parts: WorkerParts): WorkerContext {
  const metricMemory = new MetricMemory(parts.memory.metrics, parts.worker)
  const control = new ControlLink((call, name, ask) => parts.send({ type: 'control_call', call, name, ask }))
  return { ...parts, metricMemory, control }
}

function newEvents(context: WorkerContext): WorkerEvents | undefined {
  const { config, memory } = context
  return hasEvents(config) ? new WorkerEvents({ ...context, eventWatch: memory.eventWatch }) : undefined
}

function newKeySets({ clock, send, config }: WorkerContext): WorkerKeySets<KeySet> {
  return new WorkerKeySets({
    open: (keys) => new KeySet(keys),
    ask: (source) => send({ type: 'ask_key_set', source }),
    nowMs: () => clock.nowMs(),
    waitMs: config.mode === 'reverse_proxy' ? PROXY_WAIT_MS : QUESTION_WAIT_MS,
  })
}

function newDecisionLog(context: WorkerContext, { engine, callerDigest }: WorkerEngine): WorkerDecisionLog | undefined {
  const { config } = context
  if (config.decisionLog === undefined) return undefined
  return new WorkerDecisionLog({ ...context, engine, lines: new DecisionLines({ trustedProxies: config.trustedProxies, callerDigest }) })
}

/** Handlers of the calls that the main thread makes to all workers. */
function workerCalls({ context: { clock }, decider: { engine, top }, plans, events }: OpenWorker): WorkerHandlers {
  return {
    top: (filter) => top!.report(filter, engine.active, clock.nowMs(), clock.wallMs(), sleep(LOOK_MS, undefined, { ref: false })),
    know_overrides: () => undefined,
    cut_streams: async () => {
      await plans.cutBlockedStreams()
      return undefined
    },
    silent_requests: () => plans.silentRequests(),
    end_key_requests: (ids) => plans.endCallers(new Set(ids.map((id) => `key:${id}`))),
    flush_events: () => void events?.flush(),
    open_amounts: async ({ beforeMs }) => {
      const { encodeOpenAmounts } = await import('../store/state/open-amounts.ts')
      return encodeOpenAmounts([...engine.unsettledAmounts(beforeMs)].map(openAmount))
    },
  }
}

function openAmount({ counter, locator, ...amounts }: UnsettledAmount): OpenAmount {
  const [low, high] = tagWords(locator.tag)
  return { low, high, ...amounts, isMoney: counter.reason === 'budget_exceeded' }
}

/** Span of a measurement. Scrapes are at least this far apart, and a shorter one would wake workers that have nothing to do. */
const INTERVAL_MS = 5000

/** Writes a worker's own measurements to shared memory, so that a scrape of any worker shows those of all. */
class Vitals {
  readonly #busyRatio: Series
  readonly #heapBytes: Series
  readonly #timer: NodeJS.Timeout
  #before: EventLoopUtilization

  constructor(memory: MetricMemory, worker: number) {
    this.#busyRatio = new CounterFamily(memory, 'edge_worker_busy_ratio').series(String(worker))
    this.#heapBytes = new CounterFamily(memory, 'edge_worker_heap_bytes').series(String(worker))
    this.#before = performance.eventLoopUtilization()
    this.#timer = setInterval(() => this.#measure(), INTERVAL_MS)
    this.#timer.unref()
    this.#measure()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #measure(): void {
    const now = performance.eventLoopUtilization()
    this.#busyRatio.count = performance.eventLoopUtilization(now, this.#before).utilization
    this.#before = now
    this.#heapBytes.count = getHeapStatistics().used_heap_size
  }
}
