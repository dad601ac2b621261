import type { Logger } from 'pino'
import type { EndedOverride, Override, OverrideChange, OverrideSubject } from '../../overrides/override.ts'

/** What the log says about overrides. Callers' values stay out of it, because they are personal data. */

export function logSet(logger: Logger, { id, subject, change, untilMs, actor, reason }: Override): void {
  logger.info(
    { event: 'override_set', id, actor, reason, ...subjectFields(subject), ...changeFields(change, untilMs) },
    change.kind === 'shadow' ? 'an operator switched all policies to shadow mode' : 'an operator set an override for a rule',
  )
}

/** Logs who edited an override and why, and what it did before. */
export function logEdited(logger: Logger, before: Override, { id, subject, change, untilMs, edit }: Override): void {
  const { change: change_before, until: until_before } = changeFields(before.change, before.untilMs)
  const { actor, reason } = edit!
  logger.info(
    {
      event: 'override_edited',
      id,
      actor,
      reason,
      ...subjectFields(subject),
      ...changeFields(change, untilMs),
      change_before,
      until_before,
    },
    'an operator edited an override',
  )
}

const END_WORDS: Readonly<Record<Exclude<EndedOverride['why'], 'edited'>, string>> = {
  ended: 'an operator ended an override',
  replaced: 'an override was replaced by another one',
  over: 'an override has expired',
}

/** `actor` and `reason` are those of the person who ended the override or, if it expired, of the one who set it. */
export function logEnded(
  logger: Logger,
  { id, subject }: Pick<Override, 'id' | 'subject'>,
  why: keyof typeof END_WORDS,
  { actor, reason }: Pick<Override, 'actor' | 'reason'>,
): void {
  logger.info({ event: 'override_ended', id, actor, reason, ...subjectFields(subject), why }, END_WORDS[why])
}

function subjectFields(subject: OverrideSubject): { policy?: string; rule?: string; for?: 'one_caller' | 'all_callers' } {
  if (subject === 'all_policies') return {}
  const { policy, rule, values } = subject
  return { policy, rule, for: values === undefined ? 'all_callers' : 'one_caller' }
}

function changeFields(change: OverrideChange, untilMs: number): { readonly change: string; readonly until: string } {
  return { change: changeText(change), until: new Date(untilMs).toISOString() }
}

/** Says what an override does, for the log and the list of changes. */
export function changeText(change: OverrideChange): string {
  switch (change.kind) {
    case 'multiply':
      return `multiply ${change.factor}`
    case 'set':
      return `set ${JSON.stringify(change.fields)}`
    case 'shadow':
      return 'shadow_all'
    case 'block':
      return change.cutsStreams ? 'block cut_streams' : 'block'
    default:
      return change.kind
  }
}
