import type { ChangeJson } from '../../admin/api/instance-types.ts'
import type { RetryNote } from '../../admin/endpoints/backends-endpoints.ts'
import type { AnnouncedBundle, BundleTextRead } from '../../admin/endpoints/bundle-endpoints.ts'
import type { ResetNote } from '../../admin/endpoints/counters-endpoints.ts'
import type { ChangesList } from '../../admin/endpoints/events-endpoints.ts'
import type { KeyNote } from '../../callers/keys/key-control.ts'
import type { OverrideSubject } from '../../overrides/override.ts'
import type { OverrideNote } from '../overrides/override-control.ts'
import { changeText } from '../overrides/override-log.ts'
import type { LogEvent } from '../problems.ts'

const MAX_CHANGES = 500
const MAX_CHARACTERS = 512 * 1024
/** Longer texts end with `…`: a caller's value may have 60,000 characters, and the problem of a bundle may quote one. */
const MAX_TEXT_CHARACTERS = 300

/** Announcements wait for their bundles this long; a file is read within a second. */
const ANNOUNCED_MS = 10 * 60_000
const MAX_ANNOUNCED = 20

/** Log events from which changes of bundles are read. */
export const BUNDLE_CHANGES: ReadonlySet<string> = new Set(['bundle_applied', 'bundle_refused'])

interface KeptChange {
  readonly atMs: number
  /** Its place in the order in which changes became known here. In a fleet their times may be in another order. */
  readonly number: number
  readonly text: string
}

/** The changes of one kind, the first known first. */
interface KeptKind {
  readonly changes: KeptChange[]
  characters: number
}

/**
 * Who changed what and why: the last bundles, overrides and resets of this instance, and the overrides of its fleet, in bounded memory. When there is no room
 * left, the oldest change of the kind that takes most room goes: a thousand resets do not push out a bundle. Unlike events, changes name callers, as the
 * list of overrides does; therefore those of operators are not read from the log.
 */
export class ChangeLog {
  readonly #startedMs: number
  readonly #kinds = new Map<ChangeJson['change'], KeptKind>()
  #count = 0
  #characters = 0
  #lastNumber = 0
  /** By hash, the oldest first. */
  readonly #announced = new Map<string, AnnouncedBundle & { readonly atMs: number }>()
  /** Time of the newest change that was removed to make room. */
  #lostMs = 0
  #activeVersion: string | null = null

  constructor(wallMs: number) {
    this.#startedMs = wallMs
  }

  /** An operator is about to publish the bundle with this hash: its change will say who and why. */
  announce(announced: AnnouncedBundle, wallMs: number): void {
    this.#announced.delete(announced.hash)
    this.#announced.set(announced.hash, { ...announced, atMs: wallMs })
    for (const hash of this.#announced.keys()) {
      if (this.#announced.size <= MAX_ANNOUNCED) break
      this.#announced.delete(hash)
    }
  }

  noteBundle({ event, path, url, version, hash, problems, msg }: LogEvent, wallMs: number): void {
    const before = this.#activeVersion
    const common = { source: shortened(path ?? url ?? null), ...this.#publisherOf(String(hash), wallMs) }
    if (event === 'bundle_applied') {
      this.#activeVersion = String(version)
      return this.#add(wallMs, { change: 'bundle_applied', before, after: this.#activeVersion, ...common })
    }
    const [firstProblem = msg] = Array.isArray(problems) ? (problems as unknown[]) : []
    this.#add(wallMs, { change: 'bundle_refused', before, after: before, detail: shortened(firstProblem), ...common })
  }

  #publisherOf(hash: string, wallMs: number): Pick<ChangeJson, 'actor' | 'reason'> | undefined {
    for (const [old, { atMs }] of this.#announced) if (atMs < wallMs - ANNOUNCED_MS) this.#announced.delete(old)
    const announced = this.#announced.get(hash)
    return announced && { actor: announced.actor, reason: announced.reason }
  }

  noteTextRead({ version, actor }: BundleTextRead, wallMs: number): void {
    this.#add(wallMs, { change: 'bundle_text_read', actor, id: version })
  }

  noteOverride(note: OverrideNote): void {
    const { id, subject, change, createdMs, untilMs, actor, reason, edit } = note.override
    const text = shortened(changeText(change))
    const common = { actor, reason, ...subjectFields(subject), id, until: new Date(untilMs).toISOString() }
    switch (note.kind) {
      case 'set': {
        const { replaced } = note
        const before = replaced === undefined ? null : shortened(changeText(replaced.change))
        if (edit !== undefined && replaced?.id === id) {
          const { actor, reason, atMs } = edit
          const detail = replaced.untilMs === untilMs ? null : `until was ${new Date(replaced.untilMs).toISOString()}`
          return this.#add(atMs, { change: 'override_edited', ...common, actor, reason, before, after: text, detail })
        }
        const detail = replaced === undefined || replaced.id === id ? null : `replaces override ${replaced.id}`
        return this.#add(createdMs, { change: 'override_set', ...common, before, after: text, detail })
      }
      case 'ended': {
        const { actor, reason, momentMs } = note.end
        return this.#add(momentMs, { change: 'override_ended', ...common, actor, reason, before: text })
      }
      case 'expired':
        return this.#add(untilMs, { change: 'override_ended', ...common, before: text, detail: 'it has expired' })
    }
  }

  noteReset({ values, detail, ...note }: ResetNote, wallMs: number): void {
    this.#add(wallMs, { change: 'counter_reset', ...note, values: shortValues(values), detail: detail ?? null })
  }

  noteRetry({ backend, actor, reason }: RetryNote, wallMs: number): void {
    this.#add(wallMs, { change: 'backend_retried', actor, reason, id: backend })
  }

  noteKey({ change, key, former }: KeyNote): void {
    const { actor, reason } = change === 'key_created' ? key : key.edit!
    const until = key.expiresMs === undefined ? null : new Date(key.expiresMs).toISOString()
    const hasOtherLabels = former !== undefined && JSON.stringify(former.labels) !== JSON.stringify(key.labels)
    const before = hasOtherLabels ? shortened(JSON.stringify(former.labels)) : null
    this.#add(key.momentMs, { change, actor, reason, values: shortValues(key.labels), until, id: key.id, before })
  }

  list(askedMs: number | undefined, limit: number): ChangesList {
    const sinceMs = Math.max(askedMs ?? 0, this.#startedMs)
    // An override may have been set before this process started.
    const wanted = [...this.#kinds.values()].flatMap(({ changes }) => changes.filter(({ atMs }) => atMs >= (askedMs ?? 0)))
    const changes = wanted.sort((a, b) => b.atMs - a.atMs || b.number - a.number).map(({ text }) => text)
    return { sinceMs, isComplete: changes.length <= limit && this.#lostMs < sinceMs, changes: changes.slice(0, limit) }
  }

  #add(atMs: number, fields: Partial<ChangeJson> & Pick<ChangeJson, 'change'>): void {
    const json: ChangeJson = { ...NOTHING, time: new Date(atMs).toISOString(), ...fields }
    const text = JSON.stringify(json)
    const kind = this.#kinds.get(json.change) ?? { changes: [], characters: 0 }
    this.#kinds.set(json.change, kind)
    kind.changes.push({ atMs, number: ++this.#lastNumber, text })
    kind.characters += text.length
    this.#count++
    this.#characters += text.length
    while (this.#count > MAX_CHANGES) this.#removeFrom(this.#largest(({ changes }) => changes.length))
    while (this.#characters > MAX_CHARACTERS) this.#removeFrom(this.#largest(({ characters }) => characters))
  }

  #largest(sizeOf: (kind: KeptKind) => number): KeptKind {
    return [...this.#kinds.values()].reduce((largest, kind) => (sizeOf(kind) > sizeOf(largest) ? kind : largest))
  }

  #removeFrom(kind: KeptKind): void {
    const { text, atMs } = kind.changes.shift()!
    kind.characters -= text.length
    this.#count--
    this.#characters -= text.length
    this.#lostMs = Math.max(this.#lostMs, atMs)
  }
}

const NOTHING: Omit<ChangeJson, 'time' | 'change'> = {
  actor: null,
  reason: null,
  policy: null,
  rule: null,
  values: null,
  before: null,
  after: null,
  until: null,
  id: null,
  source: null,
  detail: null,
}

function subjectFields(subject: OverrideSubject): Partial<ChangeJson> {
  if (subject === 'all_policies') return {}
  const { policy, rule, values } = subject
  return { policy, rule, values: values === undefined ? null : shortValues(values) }
}

function shortValues(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, shortened(value)!]))
}

function shortened(value: unknown): string | null {
  if (value === null || value === undefined) return null
  const text = String(value)
  return text.length <= MAX_TEXT_CHARACTERS ? text : `${text.slice(0, MAX_TEXT_CHARACTERS - 1)}…`
}
