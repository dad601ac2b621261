import { createHash, randomBytes } from 'node:crypto'
import { assetText } from '../../asset.ts'
import { LinkError } from './link/link-error.ts'
import type { RedisLink } from './link/redis-link.ts'
import type { Script } from './link/script.ts'

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
