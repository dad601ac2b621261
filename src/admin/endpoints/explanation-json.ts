import type { ExplainedChoice, ExplainedRoute, RequestExplanation } from '../../decide/request-explanation.ts'
import type { CallerDigest } from '../../engine/decide-options.ts'
import type { ExplainedDescriptor, ExplainedPolicy, ExplainedRule } from '../../engine/explain/explanation.ts'
import type { ExplainedCounter } from '../../engine/seen-counters.ts'
import type { Wait } from '../../engine/waiting-lines.ts'
import type { HeaderList } from '../../http1/header-fields.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import { type CallerVerdict, isVerified } from '../../request/caller.ts'
import { jsonWithList } from '../api/long-responses.ts'
import type * as json from '../api/types.ts'
import { counterJson, wholeSeconds } from './counters-endpoints.ts'

/** Builds the response one policy at a time, because there may be thousands. `callerDigest` converts credentials to digests. */
export function* explanationSteps(
  { answer, headers, caller, route, policies }: RequestExplanation,
  callerDigest: CallerDigest,
): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const policy of policies) {
    texts.push(Buffer.from(JSON.stringify(policyJson(policy, callerDigest))))
    yield
  }
  const { decision, refusal, status } = answer
  const verdict: Omit<json.ExplanationJson, 'policies'> = {
    action: decision?.action ?? 'refuse',
    status,
    reason: decision?.reason ?? refusal!,
    policy: decision?.policy?.id ?? null,
    rule: decision?.rule?.name ?? null,
    ...(decision?.action === 'reject' && decision.wait !== undefined && { wait: waitJson(decision.wait) }),
    headers: headersJson(headers),
    caller: caller === undefined ? null : callerJson(caller),
    ...(route !== undefined && { backend: backendJson(route) }),
  }
  return jsonWithList(verdict, 'policies', texts)
}

function backendJson({ number, isSticky, candidates }: ExplainedRoute): json.ExplainedBackendJson {
  return { route: number ?? null, sticky: isSticky, candidates: candidates.map(candidateJson) }
}

function candidateJson(choice: ExplainedChoice): json.ExplainedCandidateJson {
  const { name, isFallback: fallback, weight, model = null, state, reason = null, untilMs, share } = choice
  return {
    name,
    fallback,
    weight,
    model,
    state,
    reason,
    cooling_until: untilMs === undefined ? null : new Date(untilMs).toISOString(),
    share,
  }
}

function waitJson({ lookMs, maxMs, isOpenEnded }: Wait): json.ExplainedWaitJson {
  return { seconds: isOpenEnded ? null : wholeSeconds(lookMs), up_to_seconds: maxMs / 1000 }
}

function callerJson(caller: CallerVerdict): json.ExplainedCallerJson {
  if (!isVerified(caller)) return { id: null, labels: {}, problem: caller.problem }
  return { id: caller.id, labels: Object.fromEntries(caller.labels), problem: null }
}

function headersJson(headers: HeaderList): json.ExplanationJson['headers'] {
  return Object.fromEntries(Array.from({ length: headers.length / 2 }, (_, i) => [headers[2 * i], headers[2 * i + 1]]))
}

/** `callerDigest` converts credentials to digests. */
export function policyJson({ policy: { id, mode }, why, rules }: ExplainedPolicy, callerDigest: CallerDigest): json.ExplainedPolicyJson {
  return { id, mode, matched: why === undefined, why: why ?? null, rules: rules.map((rule) => ruleJson(rule, callerDigest)) }
}

function ruleJson(
  { rule: { name, isElse }, why, instead, cost, growsBy, descriptors, counters, override }: ExplainedRule,
  callerDigest: CallerDigest,
): json.ExplainedRuleJson {
  return {
    name,
    applied: why === undefined,
    why: why ?? null,
    match_else: isElse,
    instead: instead?.name ?? null,
    cost: cost ?? null,
    ...(growsBy !== undefined && { grows_by: growsBy }),
    descriptors: descriptors.map((descriptor) => descriptorJson(descriptor, callerDigest)),
    counters: counters.map(explainedCounterJson),
    override: override?.id ?? null,
  }
}

function descriptorJson({ key, value }: ExplainedDescriptor, callerDigest: CallerDigest): json.ExplainedDescriptorJson {
  if (value === undefined) return { key, value: null }
  return { key, value: isCredential(key) ? callerDigest([value]) : value }
}

/** The wait is null if the request costs more than the limit can ever hold, because no wait would be long enough. */
function explainedCounterJson(counter: ExplainedCounter): json.ExplainedCounterJson {
  const { waitMs } = counter
  return { ...counterJson(counter), wait_s: Number.isFinite(waitMs) ? wholeSeconds(waitMs) : null }
}
