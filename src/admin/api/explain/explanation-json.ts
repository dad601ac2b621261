import type { RequestExplanation } from '../../../decide/request-explanation.ts'
import type { ExplainedCounter, ExplainedDescriptor, ExplainedPolicy, ExplainedRule } from '../../../engine/explanation.ts'
import type { NameOf } from '../../../engine/name-of.ts'
import type { HeaderList } from '../../../http/header-list.ts'
import { isCredential } from '../../../policy/descriptor-key.ts'
import { counterJson, wholeSeconds } from '../counter-json.ts'
import { jsonWithList } from '../json-list.ts'
import type * as json from '../types.ts'

/** The response, a policy at a time: there may be thousands. `nameOf` digests credentials. */
export function* explanationSteps({ answer, headers, policies }: RequestExplanation, nameOf: NameOf): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const policy of policies) {
    texts.push(Buffer.from(JSON.stringify(policyJson(policy, nameOf))))
    yield
  }
  const { decision, refusal, status } = answer
  const verdict: Omit<json.Explanation, 'policies'> = {
    action: decision?.action ?? 'refuse',
    status,
    reason: decision?.reason ?? refusal!,
    policy: decision?.policy?.id ?? null,
    rule: decision?.rule?.name ?? null,
    headers: headersJson(headers),
  }
  return jsonWithList(verdict, 'policies', texts)
}

function headersJson(headers: HeaderList): json.Explanation['headers'] {
  return Object.fromEntries(Array.from({ length: headers.length / 2 }, (_, i) => [headers[2 * i], headers[2 * i + 1]]))
}

/** `nameOf` digests credentials. */
export function policyJson({ policy: { id, mode }, why, rules }: ExplainedPolicy, nameOf: NameOf): json.ExplainedPolicy {
  return { id, mode, matched: why === undefined, why: why ?? null, rules: rules.map((rule) => ruleJson(rule, nameOf)) }
}

function ruleJson({ rule: { name }, why, cost, descriptors, counters, override }: ExplainedRule, nameOf: NameOf): json.ExplainedRule {
  return {
    name,
    applied: why === undefined,
    why: why ?? null,
    cost: cost ?? null,
    descriptors: descriptors.map((descriptor) => descriptorJson(descriptor, nameOf)),
    counters: counters.map(explainedCounterJson),
    override: override?.id ?? null,
  }
}

function descriptorJson({ key, value }: ExplainedDescriptor, nameOf: NameOf): json.ExplainedDescriptor {
  if (value === undefined) return { key, value: null }
  return { key, value: isCredential(key) ? nameOf([value]) : value }
}

/** No wait is long enough for a request that costs more than the limit ever has: null. */
function explainedCounterJson(counter: ExplainedCounter): json.ExplainedCounter {
  const { waitMs } = counter
  return { ...counterJson(counter), wait_s: Number.isFinite(waitMs) ? wholeSeconds(waitMs) : null }
}
