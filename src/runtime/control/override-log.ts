import type { Logger } from 'pino'
import type { Override, OverrideChange, OverrideSubject } from '../../overrides/override.ts'

/** Why an override is no longer in force. */
export type EndOfOverride = 'ended' | 'replaced' | 'over'

const END_WORDS: Readonly<Record<EndOfOverride, string>> = {
  ended: 'an operator ended an override',
  replaced: 'an override was replaced by another one',
  over: 'an override has expired',
}

/** Values stay out of the log: they are personal data. */
export function logSet(logger: Logger, { id, subject, change, untilMs, actor, reason }: Override): void {
  const until = new Date(untilMs).toISOString()
  logger.info(
    { event: 'override_set', id, actor, reason, ...subjectFields(subject), change: changeText(change), until },
    change.kind === 'shadow' ? 'an operator switched all policies to shadow mode' : 'an operator set an override for a rule',
  )
}

/** `by`: who ended it and why; where it ended by itself, who set it. */
export function logEnded(
  logger: Logger,
  { id, subject }: Pick<Override, 'id' | 'subject'>,
  why: EndOfOverride,
  { actor, reason }: Pick<Override, 'actor' | 'reason'>,
): void {
  logger.info({ event: 'override_ended', id, actor, reason, ...subjectFields(subject), why }, END_WORDS[why])
}

function subjectFields(subject: OverrideSubject): { policy?: string; rule?: string; for?: 'one_caller' | 'all_callers' } {
  if (subject === 'all_policies') return {}
  const { policy, rule, values } = subject
  return { policy, rule, for: values === undefined ? 'all_callers' : 'one_caller' }
}

function changeText(change: OverrideChange): string {
  switch (change.kind) {
    case 'multiply':
      return `multiply ${change.factor}`
    case 'set':
      return `set ${JSON.stringify(change.fields)}`
    case 'shadow':
      return 'shadow_all'
    default:
      return change.kind
  }
}
