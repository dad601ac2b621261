import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import type { Override, TimedOverride } from '../overrides/override.ts'
import type { NewEntry, OverrideMap, OverrideStorage, PutResult } from '../overrides/override-map.ts'
import {
  CONTROL_CAPACITY,
  type ControlChanges,
  type ControlMap,
  type ControlNews,
  ControlScript,
  type KnownChanges,
  newEpoch,
  POLL_COUNT,
  RedisClock,
} from '../store/redis/control-script.ts'
import { type AnnouncedReset, resetEntry, resetOf } from '../store/redis/fleet-resets.ts'
import { type Deadlines, LinkError } from '../store/redis/link/call.ts'
import type { RedisAddress } from '../store/redis/link/redis-address.ts'
import { RedisLink } from '../store/redis/link/redis-link.ts'
import { counterProbe, counterScripts } from '../store/redis/scripts.ts'
import type { Clock } from '../time/clock.ts'
import type { FleetNews } from './control-calls.ts'
import { FleetOverrides } from './overrides/fleet-overrides.ts'

export interface FleetControlParts {
  readonly link: Pick<RedisLink, 'run' | 'command' | 'firstUse' | 'close'>
  /** Prefix of all keys in Redis. */
  readonly prefix: string
  readonly map: OverrideMap
  readonly clock: Clock
  readonly logger: Logger
  readonly hasReservations: () => boolean
  /** `all` is for workers that start later. */
  readonly announce: (news: FleetNews, all: FleetNews) => void
}

/** Interval of polls. Another instance's override or reset is known here after this time and a round trip, and so before it comes into force. */
const POLL_MS = 800
/** How long the start waits for Redis. */
const FIRST_USE_MS = 2000
/** Entries per call, few enough not to slow down decisions on the same Redis. */
const BATCH = 200

/** The main thread's part in a fleet: changes that operators made on any instance. Requests never wait for it. */
export class FleetControl implements OverrideStorage {
  readonly #parts: FleetControlParts
  readonly #script: ControlScript
  readonly #clock = new RedisClock()
  readonly #overrides: FleetOverrides
  /** Resets by key, the oldest first, as many as Redis keeps. */
  readonly #resets = new Map<string, AnnouncedReset>()
  #epoch = newEpoch()
  #latestMs = 0
  #digestKey = `0 ${randomBytes(8).toString('hex')}`
  #lastChanges = { overrides: '0', resets: '0' }
  readonly #followers: (() => Promise<void>)[] = []
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #refusal: string | undefined
  /** The last announcement to the workers, as text. */
  #announced = ''
  #hadReservations: boolean | undefined

  constructor(parts: FleetControlParts) {
    this.#parts = parts
    this.#script = new ControlScript(parts.link, parts.prefix)
    this.#overrides = new FleetOverrides({ ...parts, script: this.#script, redisClock: this.#clock })
  }

  /** The main thread's connection to Redis. It is closed with this. */
  get link(): FleetControlParts['link'] {
    return this.#parts.link
  }

  /** Has something else read from Redis with each poll. It must not reject. */
  follow(follower: () => Promise<void>): void {
    this.#followers.push(follower)
  }

  /** Resolves when earlier changes by operators are known, or after waiting FIRST_USE_MS for Redis. */
  async start(): Promise<void> {
    await this.#parts.link.firstUse(FIRST_USE_MS)
    await this.#poll()
    this.#overrides.noteServing()
  }

  async put(entry: NewEntry, expected: string | undefined): Promise<PutResult> {
    const result = await this.#overrides.put(this.#epoch, entry, expected)
    if (result.kind === 'put') {
      this.#latestMs = Math.max(this.#latestMs, result.entry.momentMs)
      this.#announce([])
    }
    return result
  }

  /** Notes resets that were made at this instance; they are written back if Redis loses them. */
  noteResets(resets: readonly AnnouncedReset[]): undefined {
    const fresh = this.#noteResets(resets, this.wallMs())
    if (fresh.length > 0) this.#announce(fresh)
  }

  timed(override: Override): TimedOverride {
    return this.#overrides.timed(override)
  }

  wallMs(): number {
    return this.#overrides.wallMs()
  }

  /** An override in Redis is durable: every instance writes it back if Redis loses it. */
  isDurable(): boolean {
    return true
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#parts.link.close()
  }

  async #poll(): Promise<void> {
    // In the same turn as the poll, so that all commands share a write, and an idle instance is woken once.
    for (const follower of this.#followers) void follower()
    try {
      let hasMore = true
      while (hasMore && !this.#isClosed) hasMore = await this.#ask()
      this.#noteShared()
    } catch (error) {
      this.#noteFailure(error)
      // Workers look for settlements all the same, which may be allowed where polls are not.
      this.#announce([])
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#poll(), POLL_MS).unref()
  }

  /** Returns whether there is more to read. */
  async #ask(): Promise<boolean> {
    const { clock } = this.#parts
    const sentMs = clock.nowMs()
    const news = await this.#script.poll({
      epoch: this.#epoch,
      latestMs: this.#latestMs,
      digestKey: this.#digestKey,
      changes: this.#lastChanges,
    })
    this.#clock.note(sentMs, clock.nowMs(), news.wallMs)
    if (this.#isNoNews(news)) return false
    const isLost = this.#isLost(news)
    this.#digestKey = news.digestKey
    this.#epoch = news.epoch
    this.#lastChanges = { overrides: news.overrides.lastChange, resets: news.resets.lastChange }
    const found = resetsOf(news.resets)
    // Another instance has written back what Redis lost, without knowing everything that this instance knows.
    const hasLaterReset = found.some(({ key, momentMs }) => (this.#resets.get(key)?.momentMs ?? 0) > momentMs)
    const hasLaterOverride = this.#overrides.merge(news.overrides.entries)
    const resets = this.#noteResets(found, news.wallMs)
    const hasMore = [news.overrides, news.resets].some(({ entries }) => entries.length >= POLL_COUNT)
    // Until everything is read, an override older than the latest one may be missing.
    if (!hasMore) this.#latestMs = Math.max(this.#latestMs, news.latestMs)
    this.#announce(resets)
    if (isLost || hasLaterReset || hasLaterOverride) await this.#writeBack()
    return hasMore
  }

  /** Whether there is nothing to learn, as nearly always while nobody has changed anything, and nothing that is known can end. */
  #isNoNews({ epoch, latestMs, digestKey, overrides, resets }: ControlNews): boolean {
    const isSame = epoch === this.#epoch && latestMs === this.#latestMs && digestKey === this.#digestKey
    const isEmpty = overrides.size + resets.size + this.#parts.map.size + this.#resets.size === 0
    return isSame && isEmpty && this.#parts.hasReservations() === this.#hadReservations
  }

  /** Whether Redis lacks something that this instance knows, because it was flushed, restarted, or failed over to a stale replica. */
  #isLost({ epoch, latestMs, overrides, resets }: ControlNews): boolean {
    const hasKnown = this.#lastChanges.overrides !== '0' || this.#lastChanges.resets !== '0'
    if (hasKnown && epoch !== this.#epoch) return true
    const isBehind = (map: ControlMap, { lastChange }: ControlChanges) => Number(lastChange) < Number(this.#lastChanges[map])
    if (isBehind('overrides', overrides) || isBehind('resets', resets)) return true
    return latestMs < this.#latestMs || overrides.size < this.#parts.map.size || resets.size < this.#resets.size
  }

  async #writeBack(): Promise<void> {
    const resets = Array.from(this.#resets.values(), resetEntry)
    for (const [map, entries] of [['overrides', this.#overrides.kept()] as const, ['resets', resets] as const]) {
      for (let i = 0; i < entries.length; i += BATCH) await this.#script.add(this.#epoch, map, entries.slice(i, i + BATCH))
    }
  }

  /** Returns the resets that were not known before. */
  #noteResets(resets: readonly AnnouncedReset[], wallMs: number): AnnouncedReset[] {
    for (const [key, { forgetMs }] of this.#resets) if (forgetMs <= wallMs) this.#resets.delete(key)
    const fresh: AnnouncedReset[] = []
    for (const reset of resets) {
      const { key } = reset
      if (reset.momentMs <= (this.#resets.get(key)?.momentMs ?? 0)) continue
      this.#resets.delete(key)
      this.#resets.set(key, reset)
      fresh.push(reset)
    }
    for (const key of this.#resets.keys()) {
      if (this.#resets.size <= CONTROL_CAPACITY) break
      this.#resets.delete(key)
    }
    return fresh
  }

  #announce(resets: readonly AnnouncedReset[]): void {
    const digestKey = keyWords(this.#digestKey)
    const changes: KnownChanges = { latestMs: this.#latestMs, upcoming: this.#overrides.upcoming(this.#parts.clock.nowMs()) }
    const hasReservations = this.#parts.hasReservations()
    const announced = JSON.stringify([digestKey, changes, hasReservations])
    if (announced === this.#announced && resets.length === 0) return
    this.#announced = announced
    this.#hadReservations = hasReservations
    const all = { digestKey, changes, resets: [...this.#resets.values()], hasReservations }
    this.#parts.announce({ ...all, resets }, all)
  }

  #noteShared(): void {
    if (this.#refusal === undefined) return
    this.#refusal = undefined
    this.#parts.logger.info({ event: 'control_shared' }, 'overrides and resets are shared with other instances again')
  }

  /** Logs once per reason that Redis refuses. Workers log that it is unreachable. */
  #noteFailure(error: unknown): void {
    if (error instanceof LinkError && error.outcome !== 'refused') return
    const reason = error instanceof Error ? error.message : String(error)
    if (reason === this.#refusal) return
    this.#refusal = reason
    const what = 'Redis returns an error, so overrides and resets of other instances do not reach this one'
    this.#parts.logger.error({ event: 'control_not_shared', reason }, what)
  }
}

/** Entries that are not in our format are left out. */
function resetsOf({ entries }: ControlChanges): AnnouncedReset[] {
  return entries.map(([key, text]) => resetOf(key, text)).filter((reset) => reset !== undefined)
}

/** Parses `since key`. Returns undefined while the key is not in Redis yet, or if it is not in our format. */
function keyWords(text: string): readonly [number, number] | undefined {
  const [, since, high, low] = /^(\S+) ([0-9a-f]{8})([0-9a-f]{8})$/.exec(text) ?? []
  return since === undefined || since === '0' ? undefined : [Number.parseInt(high!, 16) | 0, Number.parseInt(low!, 16) | 0]
}

export interface OpenFleetControlParts {
  readonly config: ServerConfig
  readonly map: OverrideMap
  readonly clock: Clock
  readonly logger: Logger
  /** Deadlines of calls to Redis; real time unless a test controls it. */
  readonly deadlines?: Deadlines | undefined
  readonly hasReservations: () => boolean
  readonly announce: (news: FleetNews, all: FleetNews) => void
  /** Called when Redis stops answering, so that idle workers find out whether it answers them. */
  readonly onSilence: () => void
}

/** The least time that an operator waits for Redis. Requests of clients never wait for this connection. */
const TIMEOUT_MS = 1000

/** Opens the main thread's part in a fleet, on a connection of its own. Workers report whether Redis can be reached. */
export function openFleetControl(address: RedisAddress, { config, deadlines, onSilence, ...parts }: OpenFleetControlParts): FleetControl {
  const { redisPrefix: prefix, redisTimeoutMs } = config
  const { buckets } = counterScripts()
  const link = new RedisLink({
    address,
    prefix,
    timeoutMs: Math.max(redisTimeoutMs, TIMEOUT_MS),
    probe: (key) => counterProbe(buckets, key),
    deadlines,
    listener: { onNode() {}, onRoundTrip() {}, onError() {}, onCircuit: (_, isOpen) => isOpen && onSilence() },
  })
  return new FleetControl({ ...parts, link, prefix })
}
