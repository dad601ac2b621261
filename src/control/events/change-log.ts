import type { ChangeJson } from '../../admin/api/instance-types.ts'
import type { ResetNote } from '../../admin/endpoints/counters-endpoints.ts'
import type { ChangesList } from '../../admin/endpoints/events-endpoints.ts'
import type { OverrideSubject } from '../../overrides/override.ts'
import type { OverrideNote } from '../overrides/override-control.ts'
import { changeText } from '../overrides/override-log.ts'
import type { LogEvent } from '../problems.ts'

const MAX_CHANGES = 500
const MAX_CHARACTERS = 512 * 1024
/** Longer texts end with `…`: a caller's value may have 60,000 characters, and the problem of a bundle may quote one. */
const MAX_TEXT_CHARACTERS = 300

/** Log events from which changes of bundles are read. */
export const BUNDLE_CHANGES: ReadonlySet<string> = new Set(['bundle_applied', 'bundle_refused'])

/**
 * Who changed what and why: the last bundles, overrides and resets of this instance, and the overrides of its fleet, in bounded memory. Unlike events,
 * changes name callers, as the list of overrides does; therefore those of operators are not read from the log.
 */
export class ChangeLog {
  readonly #startedMs: number
  /** In the order in which they became known here. In a fleet their times may be in another order. */
  readonly #changes: { readonly atMs: number; readonly text: string }[] = []
  #characters = 0
  /** Time of the newest change that was removed to make room. */
  #lostMs = 0
  #activeVersion: string | null = null

  constructor(wallMs: number) {
    this.#startedMs = wallMs
  }

  noteBundle({ event, path, url, version, problems, msg }: LogEvent, wallMs: number): void {
    const before = this.#activeVersion
    const source = shortened(path ?? url ?? null)
    if (event === 'bundle_applied') {
      this.#activeVersion = String(version)
      return this.#add(wallMs, { change: 'bundle_applied', before, after: this.#activeVersion, source })
    }
    const [firstProblem = msg] = Array.isArray(problems) ? (problems as unknown[]) : []
    this.#add(wallMs, { change: 'bundle_refused', before, after: before, source, detail: shortened(firstProblem) })
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

  list(askedMs: number | undefined, limit: number): ChangesList {
    const sinceMs = Math.max(askedMs ?? 0, this.#startedMs)
    // An override may have been set before this process started.
    const wanted = this.#changes.filter(({ atMs }) => atMs >= (askedMs ?? 0)).reverse()
    const changes = wanted.sort((a, b) => b.atMs - a.atMs).map(({ text }) => text)
    return { sinceMs, isComplete: changes.length <= limit && this.#lostMs < sinceMs, changes: changes.slice(0, limit) }
  }

  #add(atMs: number, fields: Partial<ChangeJson> & Pick<ChangeJson, 'change'>): void {
    const json: ChangeJson = { ...NOTHING, time: new Date(atMs).toISOString(), ...fields }
    const text = JSON.stringify(json)
    this.#changes.push({ atMs, text })
    this.#characters += text.length
    while (this.#changes.length > MAX_CHANGES || this.#characters > MAX_CHARACTERS) {
      const lost = this.#changes.shift()!
      this.#characters -= lost.text.length
      this.#lostMs = Math.max(this.#lostMs, lost.atMs)
    }
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
