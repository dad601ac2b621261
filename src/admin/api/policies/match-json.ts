import type { CallerDigest } from '../../../engine/caller-digest.ts'
import { isCredential, parseDescriptorKey } from '../../../policy/descriptor-key.ts'
import { isPrefixPattern } from '../../../policy/patterns.ts'
import { listOf } from '../../../policy/rule-match.ts'
import type { Rule } from '../../../policy/schema.ts'

/** A rule may match a hundred thousand tokens. */
const DIGESTS_A_STEP = 200

/** A rule's `match` as operators may see it: of a credential the digest, which `explain` and `top` show, too; of a prefix of one that of the prefix. */
export function* matchSteps(match: Rule['match'], callerDigest: CallerDigest): Generator<void, Rule['match']> {
  if (match === undefined || match === 'else') return match
  const shown: Record<string, string | string[]> = {}
  for (const [key, patterns] of Object.entries(match))
    shown[key] = isCredential(parseDescriptorKey(key)!.text) ? yield* digestSteps(listOf(patterns), callerDigest) : patterns
  return shown
}

function* digestSteps(patterns: readonly string[], callerDigest: CallerDigest): Generator<void, string[]> {
  const digests: string[] = []
  for (const pattern of patterns) {
    digests.push(digestOf(pattern, callerDigest))
    if (digests.length % DIGESTS_A_STEP === 0) yield
  }
  return digests
}

/** `*` alone covers every value and tells nothing of one. */
function digestOf(pattern: string, callerDigest: CallerDigest): string {
  if (pattern === '*') return pattern
  return isPrefixPattern(pattern) ? `${callerDigest([pattern.slice(0, -1)])}*` : callerDigest([pattern])
}
