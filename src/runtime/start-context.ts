import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ReadBundle } from '../bundle/bundle-reader.ts'
import type { ServerConfig } from '../config/config.ts'
import type { Deadlines } from '../store/redis/link/call.ts'
import type { EventTap } from '../telemetry/events/published-events.ts'
import { type Clock, systemClock } from '../time/clock.ts'

/** How long request listeners stay closed while nothing is known about the first bundle, because its file is on a hung disk or its URL is slow. */
const FIRST_BUNDLE_MS = 10_000

export interface StartOptions {
  readonly clock?: Clock
  /** Interrupts a start that still waits for its first bundle; the signal's reason is logged. */
  readonly interrupt?: AbortSignal
  /** Waits out the drain, the wait for the first bundle, and the pause before a worker is replaced. */
  readonly pause?: (ms: number) => Promise<unknown>
  /** Deadlines of calls to Redis; real time unless a test controls it. */
  readonly redisDeadlines?: Deadlines | undefined
  /** How long the disk may take to respond to accesses of the bundle cache and the decision log. */
  readonly diskTimeoutMs?: number
  /** How long the start waits for a first bundle about which nothing is known yet. */
  readonly firstBundleMs?: number
  /** Reads bundles; by default this thread does. */
  readonly readBundle?: ReadBundle
  /** Taps the logger for those who watch events. */
  readonly tap?: EventTap | undefined
}

/** The parts that every phase of a start may use: the settings and the service's access to the machine. */
export interface StartContext {
  readonly config: ServerConfig
  readonly logger: Logger
  readonly clock: Clock
  readonly interrupt: AbortSignal
  readonly pause: (ms: number) => Promise<unknown>
  readonly redisDeadlines: Deadlines | undefined
  readonly diskTimeoutMs: number | undefined
  readonly firstBundleMs: number
  readonly readBundle: ReadBundle | undefined
  readonly tap: EventTap | undefined
}

export function newStartContext(config: ServerConfig, logger: Logger, options: StartOptions): StartContext {
  return {
    config,
    logger,
    clock: options.clock ?? systemClock,
    interrupt: options.interrupt ?? new AbortController().signal,
    pause: options.pause ?? unobtrusively,
    redisDeadlines: options.redisDeadlines,
    diskTimeoutMs: options.diskTimeoutMs,
    firstBundleMs: options.firstBundleMs ?? FIRST_BUNDLE_MS,
    readBundle: options.readBundle,
    tap: options.tap,
  }
}

/** Pauses do not keep the process alive; workers do. */
function unobtrusively(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false })
}
