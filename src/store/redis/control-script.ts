import { createHash, randomBytes } from 'node:crypto'
import { assetText } from '../../files/package-files.ts'
import { LinkError, type Script } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'

export type ControlMap = 'overrides' | 'resets'

/** What a poll asks. */
export interface ControlQuestion {
  /** Of the data that was read last, or a new random text. */
  readonly epoch: string
  /** Of all overrides that are known. */
  readonly latestMs: number
  /** `since key`; since 0: a new one. */
  readonly digestKey: string
  /** The last changes that were read. */
  readonly changes: Readonly<Record<ControlMap, string>>
}

export interface ControlNews {
  /** Redis's time. */
  readonly wallMs: number
  readonly epoch: string
  readonly latestMs: number
  readonly digestKey: string
  readonly overrides: ControlChanges
  readonly resets: ControlChanges
}

/** What was changed in one of the maps since it was last asked for, or a part of that. */
export interface ControlChanges {
  /** How many entries there are, changed or not. */
  readonly size: number
  readonly lastChange: string
  readonly entries: readonly (readonly [subject: string, entry: string])[]
}

export interface ControlPut {
  readonly subject: string
  /** Undefined: it ends another. */
  readonly id: string | undefined
  readonly expected: string | undefined
  readonly untilMs: number
  readonly text: string
  /** From now until its moment. */
  readonly delayMs: number
}

export type ControlPutReply =
  | { readonly kind: 'put'; readonly momentMs: number; readonly forgetMs: number }
  | { readonly kind: 'exists'; readonly id: string | undefined }
  | { readonly kind: 'full' }

/** The most that a poll returns of each map. */
export const POLL_COUNT = 500
/** Of each map; ended overrides count too, until they would be over. */
export const CONTROL_CAPACITY = 10_000
/** In place of an id. */
const NONE = '-'

/** Overrides and resets that a fleet shares, see `assets/redis/control.lua`. All methods reject with a LinkError. */
export class ControlScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script
  readonly #keys: readonly string[]

  /** `prefix`: of all keys. */
  constructor(link: Pick<RedisLink, 'run'>, prefix: string) {
    this.#link = link
    const text = `${assetText('redis/clock.lua')}\n${assetText('redis/control.lua')}`
    this.#script = { text, sha: createHash('sha1').update(text).digest('hex') }
    // In a cluster, what is in braces keeps them together.
    const mapKeys = (map: ControlMap): string[] => [map, `${map}:order`, `${map}:ends`]
    this.#keys = ['facts', ...mapKeys('overrides'), ...mapKeys('resets')].map((name) => `${prefix}{desk}:${name}`)
  }

  async poll({ epoch, latestMs, digestKey, changes }: ControlQuestion): Promise<ControlNews> {
    const args = ['poll', epoch, String(latestMs), digestKey, String(POLL_COUNT), changes.overrides, changes.resets]
    const [wallMs, newEpoch, newLatestMs, newDigestKey, overrides, resets] = await this.#run<[...string[], unknown[], unknown[]]>(args)
    return {
      wallMs: Number(wallMs),
      epoch: newEpoch as string,
      latestMs: Number(newLatestMs),
      digestKey: newDigestKey as string,
      overrides: readChanges(overrides as unknown[]),
      resets: readChanges(resets as unknown[]),
    }
  }

  async put(epoch: string, { subject, id = NONE, expected = NONE, untilMs, text, delayMs }: ControlPut): Promise<ControlPutReply> {
    const args = ['put', epoch, String(CONTROL_CAPACITY), String(delayMs), subject, id, expected, String(untilMs), text]
    const [kind, first, second] = await this.#run<string[]>(args)
    if (kind === 'put') return { kind, momentMs: Number(first), forgetMs: Number(second) }
    return kind === 'exists' ? { kind, id: first === NONE ? undefined : first } : { kind: 'full' }
  }

  /** Adds entries that have moments already. */
  async add(epoch: string, map: ControlMap, entries: readonly (readonly [subject: string, entry: string])[]): Promise<void> {
    if (entries.length > 0) await this.#run(['add', epoch, map, String(CONTROL_CAPACITY), ...entries.flat()])
  }

  async #run<Reply extends unknown[]>(args: readonly string[]): Promise<Reply> {
    const reply: unknown = await this.#link.run(this.#script, this.#keys, args)
    if (!Array.isArray(reply)) throw new LinkError('unknown', 'malformed', 'not a reply of the script')
    return reply as Reply
  }
}

/** For data that is not there yet: whoever writes first names it. */
export function newEpoch(): string {
  return randomBytes(8).toString('hex')
}

/** How an entry is kept: its times, its id, and a text that only instances read. */
export interface ControlEntry {
  readonly momentMs: number
  /** Until then it must be remembered. */
  readonly forgetMs: number
  /** When it is over; 0 for what ends another, and for a reset. */
  readonly untilMs: number
  readonly id: string | undefined
  readonly text: string
}

export function controlEntryText({ momentMs, forgetMs, untilMs, id = NONE, text }: ControlEntry): string {
  return `${momentMs} ${forgetMs} ${untilMs} ${id} ${text}`
}

/** Undefined where it is not one of ours. */
export function readControlEntry(entry: string): ControlEntry | undefined {
  const [, moment, forget, until, id, text] = /^(\S+) (\S+) (\S+) (\S+) (.*)$/s.exec(entry) ?? []
  const [momentMs, forgetMs, untilMs] = [Number(moment), Number(forget), Number(until)]
  if (text === undefined || !Number.isFinite(momentMs + forgetMs + untilMs)) return undefined
  return { momentMs, forgetMs, untilMs, id: id === NONE ? undefined : id, text }
}

function readChanges([size, lastChange, ...rest]: readonly unknown[]): ControlChanges {
  const entries: [string, string][] = []
  for (let i = 0; i + 1 < rest.length; i += 2) entries.push([rest[i] as string, rest[i + 1] as string])
  return { size: Number(size), lastChange: String(lastChange), entries }
}

/** Half of the least time between two moments. */
const HALF_TICK_MS = 0.0005

/** Which changes of overrides an instance knows. Moments are by the clock of Redis, and rise from change to change. */
export interface KnownChanges {
  /** Of the last one. */
  readonly latestMs: number
  /** Overrides that are not in force yet, by rising moments; `fromMs` is on the monotonic clock. */
  readonly upcoming: readonly UpcomingOverride[]
}

export interface UpcomingOverride {
  readonly momentMs: number
  readonly fromMs: number
}

/**
 * Tells Redis, with each call, how much of the overrides a decision was made with. A counter that another instance has changed to a later
 * override is then left as that one wants it, see `assets/redis/counters.lua`.
 */
export class OverrideMoments {
  #known: KnownChanges = { latestMs: 0, upcoming: [] }
  #passed = 0

  use(known: KnownChanges): void {
    this.#known = known
    this.#passed = 0
  }

  /** The moment up to which all changes are in force at that time of the monotonic clock. */
  knownAt(nowMs: number): number {
    const { latestMs, upcoming } = this.#known
    while (this.#passed < upcoming.length && upcoming[this.#passed]!.fromMs <= nowMs) this.#passed++
    const next = upcoming[this.#passed]
    return next === undefined ? latestMs : next.momentMs - HALF_TICK_MS
  }
}

/** By so much two clocks may drift apart between two readings. */
const DRIFT_MS = 0.1

/**
 * The clock of Redis, seen from the monotonic clock of this process. A reply says what time it was at some moment between the call and
 * the reply, and the next ones narrow it down. A reply that contradicts what is known means that a clock was set: then it alone counts.
 */
export class RedisClock {
  #leastMs = Number.NEGATIVE_INFINITY
  #mostMs = Number.POSITIVE_INFINITY

  get isKnown(): boolean {
    return this.#mostMs < Number.POSITIVE_INFINITY
  }

  /** A call that was sent and replied to at these times of the monotonic clock says that it was `wallMs`. */
  note(sentMs: number, repliedMs: number, wallMs: number): void {
    const [least, most] = [wallMs - repliedMs, wallMs - sentMs]
    const [narrowLeast, narrowMost] = [Math.max(least, this.#leastMs - DRIFT_MS), Math.min(most, this.#mostMs + DRIFT_MS)]
    const isContradiction = narrowLeast > narrowMost
    this.#leastMs = isContradiction ? least : narrowLeast
    this.#mostMs = isContradiction ? most : narrowMost
  }

  /** How far it is ahead of the monotonic clock. */
  get aheadMs(): number {
    return (this.#leastMs + this.#mostMs) / 2
  }
}
