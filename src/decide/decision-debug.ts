import type { Logger } from 'pino'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Allowed, Rejected } from '../engine/decision.ts'
import type { DecisionAnswer } from './decision-answer.ts'
import type { Door } from './question.ts'

/** Logs each decision, at level debug. Lines name a caller by its digest, which is that of the decision log if the rule has one key. */
export class DecisionDebug {
  readonly #logger: Logger
  readonly #callerDigest: CallerDigest

  constructor(logger: Logger, callerDigest: CallerDigest) {
    this.#logger = logger
    this.#callerDigest = callerDigest
  }

  note(door: Door, { status, decision, refusal }: DecisionAnswer): void {
    const outcome = decision === undefined ? { action: 'refuse', reason: refusal } : this.#shown(decision)
    this.#logger.debug({ event: 'decision', door, status, ...outcome }, 'a request was decided')
  }

  #shown(decision: Allowed | Rejected): object {
    const { action, reason, policy, rule, wouldRejects } = decision
    return {
      action,
      reason,
      policy: policy?.id,
      rule: rule?.name,
      caller: this.#callerOf(decision),
      would_rejects:
        wouldRejects.length === 0
          ? undefined
          : wouldRejects.map((would) => ({ policy: would.rule.policy.id, rule: would.rule.name, reason: would.reason })),
    }
  }

  /** The values of the deciding rule's keys; undefined if it has none, or one of them is not known. */
  #callerOf({ rule, descriptors }: Allowed | Rejected): string | undefined {
    const values = rule?.limitKeys.map((name) => descriptors.find(({ key }) => key === name)?.value) ?? []
    const known = values.filter((value) => value !== undefined)
    return known.length === 0 || known.length < values.length ? undefined : this.#callerDigest(known)
  }
}

/** Undefined if the level of the log is higher, so that a decision then costs nothing more. */
export function openDecisionDebug(logger: Logger, callerDigest: CallerDigest): DecisionDebug | undefined {
  return logger.isLevelEnabled('debug') ? new DecisionDebug(logger, callerDigest) : undefined
}
