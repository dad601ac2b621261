import { createHash, randomBytes } from 'node:crypto'
import { assetText } from '../../files/package-files.ts'
import { LinkError, type Script } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'

export type ControlMap = 'overrides' | 'resets'

/** The arguments of a poll. */
export interface ControlQuestion {
  /** Epoch of the data that was read last, or a new random text. */
  readonly epoch: string
  /** The latest moment of all overrides that are known. */
  readonly latestMs: number
  /** Key of the caller digests, as `since key`; `since` is 0 for a new one. */
  readonly digestKey: string
  /** Numbers of the last changes that were read. */
  readonly changes: Readonly<Record<ControlMap, string>>
}

export interface ControlNews {
  /** Time by the clock of Redis. */
  readonly wallMs: number
  readonly epoch: string
  readonly latestMs: number
  readonly digestKey: string
  readonly overrides: ControlChanges
  readonly resets: ControlChanges
}

/** Changes to one of the maps since the last poll, or the first part of them. */
export interface ControlChanges {
  /** Number of all entries, changed or not. */
  readonly size: number
  readonly lastChange: string
  readonly entries: readonly (readonly [subject: string, entry: string])[]
}

export interface ControlPut {
  readonly subject: string
  /** Undefined if the entry ends another one. */
  readonly id: string | undefined
  readonly expected: string | undefined
  readonly untilMs: number
  readonly text: string
  /** How long from now until the moment of the entry. */
  readonly delayMs: number
}

export type ControlPutReply =
  | { readonly kind: 'put'; readonly momentMs: number; readonly forgetMs: number }
  | { readonly kind: 'exists'; readonly id: string | undefined }
  | { readonly kind: 'full' }

/** The most entries that a poll returns of each map. */
export const POLL_COUNT = 500
/** The most entries in each map. An override that was ended early counts until it would have been over. */
export const CONTROL_CAPACITY = 10_000
/** Stands for a missing id. */
const NONE = '-'

/** Reads and changes the overrides and resets that a fleet shares, see `assets/redis/control.lua`. All methods reject with a LinkError. */
export class ControlScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script
  readonly #keys: readonly string[]

  /** `prefix` is that of all keys. */
  constructor(link: Pick<RedisLink, 'run'>, prefix: string) {
    this.#link = link
    const text = `${assetText('redis/clock.lua')}\n${assetText('redis/control.lua')}`
    this.#script = { text, sha: createHash('sha1').update(text).digest('hex') }
    // In a cluster, the hash tag in braces puts all keys into one slot.
    const mapKeys = (map: ControlMap): string[] => [map, `${map}:order`, `${map}:ends`]
    this.#keys = ['facts', ...mapKeys('overrides'), ...mapKeys('resets')].map((name) => `${prefix}{control}:${name}`)
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

/** Returns a random epoch for data that may not exist yet: the first instance to write names it. */
export function newEpoch(): string {
  return randomBytes(8).toString('hex')
}

/** An entry as it is stored: its times, its id, and a text that only instances read. */
export interface ControlEntry {
  readonly momentMs: number
  /** Time until which the entry must be remembered. */
  readonly forgetMs: number
  /** When the override is over; 0 for an entry that ends another one, and for a reset. */
  readonly untilMs: number
  readonly id: string | undefined
  readonly text: string
}

export function controlEntryText({ momentMs, forgetMs, untilMs, id = NONE, text }: ControlEntry): string {
  return `${momentMs} ${forgetMs} ${untilMs} ${id} ${text}`
}

/** Returns undefined if the entry is not one of ours. */
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

/** The changes of overrides that an instance knows. Moments are by the clock of Redis, and rise from change to change. */
export interface KnownChanges {
  /** Moment of the last change. */
  readonly latestMs: number
  /** Overrides that are not in force yet, by rising moments; `fromMs` is on the monotonic clock. */
  readonly upcoming: readonly UpcomingOverride[]
}

export interface UpcomingOverride {
  readonly momentMs: number
  readonly fromMs: number
}

/**
 * Knows the overrides that decisions are made with, so that each call can report them to Redis. If another instance has already changed a
 * counter to a later override, Redis leaves it under that one, see `assets/redis/counters/bucket.lua`.
 */
export class OverrideMoments {
  #known: KnownChanges = { latestMs: 0, upcoming: [] }
  #passed = 0

  use(known: KnownChanges): void {
    this.#known = known
    this.#passed = 0
  }

  /** Returns the moment up to which all changes are in force at `nowMs`, on the monotonic clock. */
  knownAt(nowMs: number): number {
    const { latestMs, upcoming } = this.#known
    while (this.#passed < upcoming.length && upcoming[this.#passed]!.fromMs <= nowMs) this.#passed++
    const next = upcoming[this.#passed]
    return next === undefined ? latestMs : next.momentMs - HALF_TICK_MS
  }
}

/** How far two clocks may drift apart between two readings. */
const DRIFT_MS = 0.1

/**
 * The clock of Redis, as seen from the monotonic clock of this process. A reply says what time it was at some moment between the call and
 * the reply, and later replies narrow that down. A reply that contradicts what is known means that a clock was set; from then on, only that
 * reply counts.
 */
export class RedisClock {
  #leastMs = Number.NEGATIVE_INFINITY
  #mostMs = Number.POSITIVE_INFINITY

  get isKnown(): boolean {
    return this.#mostMs < Number.POSITIVE_INFINITY
  }

  /** Notes the reply of a call that said it was `wallMs`; the other times are on the monotonic clock. */
  note(sentMs: number, repliedMs: number, wallMs: number): void {
    const [least, most] = [wallMs - repliedMs, wallMs - sentMs]
    const [narrowLeast, narrowMost] = [Math.max(least, this.#leastMs - DRIFT_MS), Math.min(most, this.#mostMs + DRIFT_MS)]
    const isContradiction = narrowLeast > narrowMost
    this.#leastMs = isContradiction ? least : narrowLeast
    this.#mostMs = isContradiction ? most : narrowMost
  }

  /** How far the clock of Redis is ahead of the monotonic clock. */
  get aheadMs(): number {
    return (this.#leastMs + this.#mostMs) / 2
  }
}
