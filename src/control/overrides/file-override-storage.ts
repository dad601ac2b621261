import type { Logger } from 'pino'
import { type Override, type OverrideEntry, overrideKey, type SetEntry, type TimedOverride } from '../../overrides/override.ts'
import {
  decodeEntry,
  encodeEntry,
  isNewerEntry,
  MAX_OVERRIDES,
  type NewEntry,
  type OverrideMap,
  type OverrideStorage,
  type PutResult,
} from '../../overrides/override-map.ts'
import type { StateFile } from '../../store/state/state-file.ts'
import { type Moment, OVERRIDES } from '../../store/state/state-format.ts'
import type { Clock } from '../../time/clock.ts'
import type { StateKeeper } from '../state-keeper.ts'
import { logEnded } from './override-log.ts'
import { tooManyOverrides } from './override-refusals.ts'

/** How long all threads have to learn of an override before it comes into force, so that they switch at the same moment. */
const MIN_NOTICE_MS = 100
const MAX_NOTICE_MS = 700
/** Within those bounds, the notice is this multiple of the slowest thread's current reply time. */
const NOTICE_REPLIES = 4
/** Length at which the text of a section is cut off and another one begins. */
const SECTION_CHARACTERS = 256 * 1024

export interface FileOverrideStorageParts {
  readonly map: OverrideMap
  readonly clock: Clock
  readonly logger: Logger
  /** Asks all threads. Resolves when all have replied or the timeout has passed. */
  readonly askThreads: () => Promise<unknown>
  /** Undefined if there is no state file; overrides then end with the process. */
  readonly kept: KeptOverrides | undefined
}

export interface KeptOverrides {
  /** Payloads of the sections that the last run saved. */
  readonly saved: readonly Buffer[]
  readonly file: Pick<StateFile, 'saveWith'>
  readonly keeper: Pick<StateKeeper, 'saveNow' | 'savedUpToMs'>
}

/** Overrides of a single instance: in memory, and in the state file if there is one. */
export class FileOverrideStorage implements OverrideStorage {
  readonly #parts: FileOverrideStorageParts
  readonly #times = new WeakMap<Override, { readonly fromMs: number; readonly putMs: number }>()

  /** Lines that a newer program saved; they are written again, so that it can still read them. */
  #newer: readonly string[] = []

  constructor(parts: FileOverrideStorageParts) {
    this.#parts = parts
    parts.kept?.file.saveWith((saved) => this.#sections(saved))
  }

  async start(): Promise<void> {
    const { map, clock, logger, kept } = this.#parts
    if (kept === undefined) return
    const { entries, newer, unreadable } = readSections(kept.saved)
    this.#newer = newer
    const [wallMs, nowMs] = [clock.wallMs(), clock.nowMs()]
    for (const { override } of entries) {
      // The override was put before this start, even if the wall clock says otherwise: machines boot with clocks that are not set yet.
      const fromMs = Math.min(nowMs + override.sinceMs - wallMs, nowMs)
      this.#times.set(override, { fromMs, putMs: Number.NEGATIVE_INFINITY })
      if (override.untilMs <= wallMs) logEnded(logger, override, 'over', override)
    }
    map.merge(entries, wallMs)
    if (unreadable + newer.length > 0) {
      const what = { event: 'overrides_unreadable', overrides: unreadable + newer.length }
      logger.error(what, 'some overrides in the state file cannot be read and are not in force; those of a newer program stay in the file')
    }
  }

  async put(entry: NewEntry, expected: string | undefined): Promise<PutResult> {
    const { map, clock, kept } = this.#parts
    const noticeMs = await this.#noticeMs()
    const subject = entry.kind === 'set' ? entry.override.subject : entry.end.subject
    const [wallMs, nowMs] = [clock.wallMs(), clock.nowMs()]
    const current = map.overrideOf(subject, wallMs)
    const key = current && overrideKey(current)
    if (key !== expected) return { kind: 'exists', key }
    // Overrides that were put since this one was checked count, too.
    if (current === undefined && map.list(wallMs).length >= MAX_OVERRIDES) throw tooManyOverrides()
    const momentMs = Math.max(wallMs, (map.entryOf(subject)?.momentMs ?? 0) + 1)
    const put: OverrideEntry =
      entry.kind === 'set'
        ? this.#newEntry(entry.override, momentMs, { wallMs, nowMs }, noticeMs)
        : { kind: 'ended', ...entry.end, momentMs, forgetMs: current!.untilMs }
    map.merge([put], wallMs)
    if (put.kind === 'ended') map.forget(subject)
    await kept?.keeper.saveNow()
    return { kind: 'put', entry: put }
  }

  timed(override: Override): TimedOverride {
    const { clock } = this.#parts
    const { fromMs } = this.#times.get(override)!
    return { override, fromMs, toMs: clock.nowMs() + override.untilMs - clock.wallMs() }
  }

  wallMs(): number {
    return this.#parts.clock.wallMs()
  }

  isDurable(override: Override): boolean {
    const { kept } = this.#parts
    return kept !== undefined && this.#times.get(override)!.putMs <= kept.keeper.savedUpToMs
  }

  async close(): Promise<void> {}

  async #noticeMs(): Promise<number> {
    const { clock, askThreads } = this.#parts
    const askedMs = clock.nowMs()
    await askThreads()
    return Math.min(MAX_NOTICE_MS, Math.max(MIN_NOTICE_MS, NOTICE_REPLIES * (clock.nowMs() - askedMs)))
  }

  #newEntry(content: Omit<Override, 'sinceMs'>, momentMs: number, { wallMs, nowMs }: Moment, noticeMs: number): SetEntry {
    const override = { ...content, sinceMs: wallMs + noticeMs }
    this.#times.set(override, { fromMs: nowMs + noticeMs, putMs: nowMs })
    return { kind: 'set', momentMs, forgetMs: override.untilMs, override }
  }

  *#sections({ wallMs, nowMs }: Moment): Generator<readonly [number, Buffer]> {
    let text = this.#newer.map((line) => `${line}\n`).join('')
    for (const entry of this.#parts.map.entries()) {
      if (entry.kind === 'ended') continue
      // The wall clock may have been set since. The saved start must keep its position relative to the times of the counters' records.
      const { fromMs } = this.#times.get(entry.override)!
      text += `${encodeEntry({ ...entry, override: { ...entry.override, sinceMs: fromMs + wallMs - nowMs } })}\n`
      if (text.length < SECTION_CHARACTERS) continue
      yield [OVERRIDES, Buffer.from(text)]
      text = ''
    }
    if (text !== '') yield [OVERRIDES, Buffer.from(text)]
  }
}

interface ReadSections {
  readonly entries: readonly SetEntry[]
  readonly newer: readonly string[]
  /** Number of lines that are neither. */
  readonly unreadable: number
}

function readSections(payloads: readonly Buffer[]): ReadSections {
  const lines = payloads.flatMap((payload) => payload.toString().split('\n')).filter((line) => line !== '')
  const entries = lines.map(decodeEntry).filter((entry): entry is SetEntry => entry?.kind === 'set')
  const newer = lines.filter(isNewerEntry).slice(0, MAX_OVERRIDES)
  return { entries, newer, unreadable: lines.length - entries.length - newer.length }
}
