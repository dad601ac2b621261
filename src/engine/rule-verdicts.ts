import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import { type Descriptors, UNDECIDED, UNREADABLE } from '../request/descriptors.ts'
import { REPEATED } from '../request/view.ts'

export const APPLIES = 0
/** A key of its match has no value or another one, or the rule is an `else` and another rule applies. */
export const NO_MATCH = 1
export const LACKS_KEY = 2
/** A value that it is keyed by is repeated, or could be read in more than one way. */
export const AMBIGUOUS_MATCH = 3
/** Whether the rule applies depends on the body, which has not been read yet. */
export const NEEDS_BODY = 4
/** The rule is a block that has expired. */
export const OVER = 5

/** The values that rules are judged by. A value that is UNDECIDED may turn out to be anything, or missing. */
type Values = Pick<Descriptors, 'get'>

export type Verdict = typeof APPLIES | typeof NO_MATCH | typeof LACKS_KEY | typeof AMBIGUOUS_MATCH | typeof NEEDS_BODY | typeof OVER

/** Decides which rules of a policy apply to a request. It is reused: its results hold until the next `judge`. */
export class RuleVerdicts {
  readonly #verdicts: Verdict[] = []
  /** The first block that applies. */
  block: PlanRule | undefined
  /** Whether a rule is keyed by a value that is repeated or ambiguous. */
  hasRepeated = false

  /** The verdict for rules that depend on the body. */
  #needingBody: Verdict = NEEDS_BODY

  /** Judges all rules of a policy and notes no missing keys. `isBodyAmbiguous` means that the body was read but can be understood in more than one way. */
  judge({ rules }: PlanPolicy, descriptors: Values, wallMs: number, isBodyAmbiguous: boolean): void {
    this.block = undefined
    this.hasRepeated = false
    this.#needingBody = isBodyAmbiguous ? AMBIGUOUS_MATCH : NEEDS_BODY
    let elseIndex = -1
    let elseVerdict: Verdict = APPLIES
    for (let i = 0; i < rules.length; i++) {
      const rule = rules[i]!
      if (rule.isElse) {
        elseIndex = i
        continue
      }
      elseVerdict = elseAfter(elseVerdict, rule, this.#note(i, rule, verdictOf(rule, descriptors, wallMs)))
    }
    if (elseIndex < 0) return
    const rule = rules[elseIndex]!
    this.#note(elseIndex, rule, elseVerdict === APPLIES ? verdictOf(rule, descriptors, wallMs) : elseVerdict)
  }

  of(index: number): Verdict {
    return this.#verdicts[index]!
  }

  #note(index: number, rule: PlanRule, verdict: Verdict): Verdict {
    const noted = verdict === NEEDS_BODY ? this.#needingBody : verdict
    this.#verdicts[index] = noted
    if (noted === AMBIGUOUS_MATCH) this.hasRepeated = true
    if (verdict === APPLIES && rule.block !== undefined) this.block ??= rule
    return verdict
  }
}

/** The values of a request of which only these are known, by key. All others are undecided, so that a rule which depends on them has the verdict NEEDS_BODY. */
export function partlyKnown({ keys }: Plan, known: ReadonlyMap<string, string>): Values {
  return { get: (index) => known.get(keys[index]!.text) ?? UNDECIDED }
}

/** What an `else` can still be once `rule` is judged; `before` is what it could be until then, APPLIES at first. A match that covers a request whose limit keys the rule lacks does not count. */
export function elseAfter(before: Verdict, { match }: PlanRule, verdict: Verdict): Verdict {
  if (match === undefined || before === NO_MATCH) return before
  if (verdict === APPLIES) return NO_MATCH
  return verdict === NEEDS_BODY ? NEEDS_BODY : before
}

/** Judges one rule by its own match and limit keys: an `else` as if no other rule applied. */
export function verdictOf(rule: PlanRule, descriptors: Values, wallMs: number): Verdict {
  if (rule.block !== undefined && rule.block.expiresAtMs <= wallMs) return OVER
  const verdict = matchVerdict(rule, descriptors)
  if (verdict === NO_MATCH || verdict === AMBIGUOUS_MATCH) return verdict
  // A body cannot supply a key that is missing in the head.
  const keys = keysVerdict(rule, descriptors)
  return keys === APPLIES ? verdict : keys
}

/** Reads all keys, because a repeated field is refused even if another key does not match. */
function matchVerdict({ match }: PlanRule, descriptors: Values): Verdict {
  let verdict: Verdict = APPLIES
  let isUnreadable = false
  if (match === undefined) return verdict
  for (let i = 0; i < match.length; i++) {
    const { keyIndex, patterns } = match[i]!
    const value = descriptors.get(keyIndex)
    if (value === REPEATED) verdict = AMBIGUOUS_MATCH
    else if (verdict === AMBIGUOUS_MATCH || verdict === NO_MATCH) continue
    else if (value === UNREADABLE) isUnreadable = true
    else if (value === UNDECIDED) verdict = NEEDS_BODY
    else if (value === undefined || !patterns.cover(value)) verdict = NO_MATCH
  }
  return isUnreadable && verdict !== NO_MATCH ? AMBIGUOUS_MATCH : verdict
}

function keysVerdict({ keyIndexes }: PlanRule, descriptors: Values): Verdict {
  let verdict: Verdict = APPLIES
  for (let i = 0; i < keyIndexes.length; i++) {
    const value = descriptors.get(keyIndexes[i]!)
    if (value === REPEATED) return AMBIGUOUS_MATCH
    if (value === undefined || value === UNREADABLE) verdict = LACKS_KEY
    else if (value === UNDECIDED && verdict === APPLIES) verdict = NEEDS_BODY
  }
  return verdict
}
