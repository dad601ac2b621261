import type { CounterKind, ExplainedCandidateJson, ExplainedPolicyJson, ExplainedRuleJson, ExplanationJson } from '../../admin/api/types.ts'
import { printableText } from '../../text/printable.ts'
import { countText, durationText, listText } from '../text/text-table.ts'
import { amountText, levelText, resetText } from './counters.ts'

/** How many of the policies that do not cover the request are named. */
const MAX_NAMED = 20

/** Describes what would happen to a request: first the verdict, then what decides it, then everything that was evaluated. */
export function explainText(request: string, explained: ExplanationJson): string {
  const { headers, policies } = explained
  const fields = Object.entries(headers).map(([name, value]) => `  ${name}: ${value}\n`)
  const covering = policies.filter(({ matched }) => matched)
  return [
    `${request}: ${verdictText(explained)}\n`,
    ...waitingText(explained).map((line) => `${line}\n`),
    ...decidingText(explained).map((line) => `${line}\n`),
    ...callerText(explained).map((line) => `${line}\n`),
    ...backendText(explained),
    ...(fields.length === 0 ? [] : ['\nResponse headers:\n', ...fields]),
    covering.length === 0 ? '\nNo policy covers this request.\n' : '\nPolicies that cover it:\n',
    ...covering.map(policyText),
    othersText(policies.filter(({ matched }) => !matched)),
  ].join('')
}

function verdictText({ action, status, reason }: ExplanationJson): string {
  if (action === 'allow') return 'allowed'
  return `${action === 'reject' ? 'rejected' : 'refused'} with ${status} ${reason}`
}

/** Says that the request would wait first. */
function waitingText({ wait }: ExplanationJson): string[] {
  if (wait === undefined) return []
  const passes = wait.seconds === null ? '' : `, and would pass in ${durationText(wait.seconds)} if nobody waits ahead of it`
  return [`Before that, it waits for up to ${wait.up_to_seconds} s (wait_seconds)${passes}.`]
}

/** Says what decides and why, in sentences for somebody who has not read the bundle. */
function decidingText({ action, reason, policy, rule, policies }: ExplanationJson): string[] {
  if (action === 'refuse') return [REFUSALS[reason] ?? 'The request itself is the problem, not a limit.']
  if (!policy || !rule) return ['No rule limits it.']
  const deciding = policies.find(({ id }) => id === policy)
  const found = deciding?.rules.find(({ name }) => name === rule)
  if (action === 'allow' && reason === PASSED) return [closestText(policy, rule, found)]
  const why = found === undefined ? [] : [rejectedText(reason, found)]
  if (action === 'reject') return [`Rule ${rule} of policy ${policy} rejects it.`, ...why]
  const but = deciding?.mode === 'shadow' ? 'this policy is in shadow mode' : 'nothing is enforced now, see edge status'
  return [`Rule ${rule} of policy ${policy} would reject it, but ${but}.`, ...why]
}

/** Says who the caller is, or why nobody knows. An older instance says nothing about callers. */
function callerText({ caller = null }: ExplanationJson): string[] {
  if (caller === null) return []
  if (caller.problem !== null) return [unknownCallerText(caller.problem)]
  const labels = Object.entries(caller.labels).map(([name, value]) => ` ${printableText(name)}=${printableText(value)}`)
  return [`Its caller is ${printableText(caller.id ?? '')}${labels.length === 0 ? '' : `:${labels.join('')}`}.`]
}

/** Says where the request would go. */
function backendText({ action, backend }: ExplanationJson): string[] {
  if (backend === undefined) return []
  const { route, sticky, candidates } = backend
  if (route === null) return action === 'refuse' ? [] : ['\nNo route covers it: EDGE_BACKEND_URL gets it.\n']
  const rows = candidates.map((candidate): [string, string] => [candidate.name, candidateText(candidate)])
  const stays = sticky ? ', and stays with one backend (stick_to)' : ''
  const held = candidates.every(({ share }) => share === 0)
    ? '  All of them cool, and another request tries one: 503 backends_cooling.\n'
    : ''
  return [`\nWhere it goes by routes[${route}]${stays}:\n`, listText(rows), held]
}

function candidateText({ fallback, weight, model, state, reason, cooling_until: until, share }: ExplainedCandidateJson): string {
  const first = share === 1 ? 'is next' : share > 0 ? `is next with a probability of ${Math.round(share * 100)} %` : undefined
  const role = fallback ? 'fallback' : weight === 0 ? 'gets nothing (weight 0)' : undefined
  const cools =
    state === 'healthy'
      ? undefined
      : state === 'cooling'
        ? `cools until ${until} (${reason})`
        : `one request at a time tries it (${reason})`
  const sends = model === null ? undefined : `gets model ${printableText(model)}`
  return [first, role, cools, sends].filter((part) => part !== undefined).join(', ') || 'only if another one fails'
}

/** Says why nobody knows the caller. */
export function unknownCallerText(problem: string): string {
  return `Its caller is not known: ${CALLER_PROBLEMS[problem] ?? printableText(problem)}.`
}

const CALLER_PROBLEMS: Readonly<Record<string, string>> = {
  no_credential: 'it has no credential that callers reads (no_credential)',
  two_credentials: 'it has two credentials that differ, or a field that carries one is repeated (two_credentials)',
  malformed: 'its credential is neither a JWT nor an issued key (malformed)',
  issuer: 'no entry of callers.jwt has the issuer of its token (issuer)',
  algorithm: 'the algorithm or type of its token is not accepted (algorithm)',
  unknown_key: 'no such key is known (unknown_key)',
  signature: 'the signature of its token is wrong (signature)',
  expired: 'its credential has expired (expired)',
  not_yet_valid: 'its token is not valid yet (not_yet_valid)',
  audience: 'its token is for another audience (audience)',
  claims: 'its token lacks a claim that is needed, or one cannot be used: wrong type, too long, or hidden characters (claims)',
  revoked: 'its key was revoked (revoked)',
  keys_unavailable: 'the keys that could verify its token are not available (keys_unavailable)',
  busy: 'too many credentials of its address had to be checked (busy)',
}

/** Reason of an allowed request that no policy would reject, not even one in shadow mode. */
const PASSED = 'all_rules_passed'

const REFUSALS: Readonly<Record<string, string>> = {
  unknown_caller: 'The bundle lets only verified callers pass (callers, mode: enforce).',
  caller_keys_unavailable: 'The bundle lets only verified callers pass, and the keys to verify this one are not available.',
  caller_check_busy: 'The bundle lets only verified callers pass, and too many credentials had to be checked.',
  no_route: 'The bundle has routes, none of them covers it, and there is no EDGE_BACKEND_URL.',
  model_not_replaceable:
    'Its route replaces the model, and this request has none that can be replaced: no JSON body, a compressed one, or no model.',
  websocket_not_counted:
    'It opens a WebSocket in which a rule of tokens or money could count nothing: the rule may say websockets: reserve.',
  no_bundle_loaded: 'No bundle is active, so nothing can be decided.',
  store_unavailable: 'Redis is unreachable, and EDGE_REDIS_FAILURE_MODE refuses requests meanwhile.',
  missing_original_host: 'A policy for certain hosts covers its path, and the request has no host: give --host.',
  repeated_descriptor: 'A field that a rule reads occurs more than once, and edge does not guess which one counts.',
}

function closestText(policy: string, rule: string, found: ExplainedRuleJson | undefined): string {
  const [counter] = [...(found?.counters ?? [])].sort((a, b) => a.remaining / a.limit - b.remaining / b.limit)
  const left = counter === undefined ? '' : `: ${levelText(counter)}`
  return `Closest to its limit is rule ${rule} of policy ${policy}${left}.`
}

/** Says why a rule rejects. */
export function rejectedText(reason: string, { cost, counters, descriptors, override, match_else: isElse }: ExplainedRuleJson): string {
  const caller = descriptors.map(({ key, value }) => `${key}=${value}`).join(' ')
  if (reason === 'blocked') {
    const blocked =
      caller === '' ? `Every request${isElse ? UNMATCHED : ''}` : `${caller}${isElse ? ', which no other rule of the policy matches,' : ''}`
    return `${blocked} is blocked${override ? ` by override ${override}` : ''}.`
  }
  const empty = counters.filter(({ wait_s: waitS }) => waitS !== 0)
  const left = empty.map((counter) => levelText(counter)).join(', ')
  const need = `${caller === '' ? `All callers${isElse ? `${UNMATCHED} have together` : ' together have'}` : `${caller} has`} ${left || 'nothing left'}, and this request takes ${costText(cost, empty[0]?.kind)}.`
  if (empty.some(({ wait_s: waitS }) => waitS === null)) return `${need} That is more than the limit can ever hold: waiting does not help.`
  if (empty.every(({ kind }) => kind === 'in_flight')) return `${need} It would pass when one of the others ends.`
  return `${need} It would pass in ${durationText(Math.max(0, ...empty.map(({ wait_s: waitS }) => waitS!)))}.`
}

const UNMATCHED = ' that no other rule of the policy matches'

function policyText({ id, mode, rules }: ExplainedPolicyJson): string {
  const name = mode === 'shadow' ? `${id} (shadow: rejects nothing)` : id
  return `  ${name}\n${rules.map(ruleText).join('')}`
}

function ruleText(rule: ExplainedRuleJson): string {
  const { name, applied, cost, grows_by: growsBy, descriptors, counters, override } = rule
  if (!applied) return `    ${name}: does not apply, ${whyNotText(rule)}\n`
  const rows: [string, string][] = descriptors.map(({ key, value }) => [key, value ?? `missing${wayToGive([key])}`])
  for (const counter of counters) {
    const wait = counter.wait_s === 0 ? '' : '; not enough'
    rows.push([counter.kind, `${levelText(counter)}, ${resetText(counter)}${wait}`])
  }
  if (override) rows.push(['override', `${override}, see edge override --list`])
  const takes = counters.length === 0 ? 'applies' : `takes ${costText(cost, counters[0]!.kind)}`
  const grows =
    growsBy === undefined ? '' : `, and asks for ${amountText(growsBy, undefined)} more completion tokens at a time while its stream runs`
  return `    ${name}: ${takes}${grows}\n${listText(rows, '      ')}`
}

/** `cost` is null if it is unknown. */
function costText(cost: number | null, kind: CounterKind | undefined): string {
  if (cost === null) return 'an unknown amount'
  const unit = kind === undefined ? undefined : UNITS[kind]
  return unit === undefined ? amountText(cost, kind) : `${amountText(cost, kind)} ${cost === 1 ? unit[0] : unit[1]}`
}

/** One and several of what a counter counts. What a bucket or a window counts is up to its rule; bundles do not name their currency. */
const UNITS: Readonly<Partial<Record<CounterKind, readonly [one: string, many: string]>>> = {
  minute: ['token', 'tokens'],
  day: ['token', 'tokens'],
  budget: ['currency units', 'currency units'],
}

/** Says why a rule does not apply. */
export function whyNotText({ why, descriptors, match_else: isElse, instead }: ExplainedRuleJson): string {
  const absent = descriptors.filter(({ value }) => value === null).map(({ key }) => key)
  const keys = absent.join(', ')
  if (why === 'missing_descriptor') return `the request has no ${keys || 'value for its keys'}${wayToGive(absent)}`
  if (why === 'repeated_descriptor') {
    if (absent.length > 1) return `one of ${keys} occurs more than once in the request`
    return `the request has more than one ${keys || 'value for a field that it reads'}`
  }
  if (why !== 'no_match') return why ?? 'no reason is given'
  if (instead) return `because rule ${instead} matches this request, and this one is for the rest`
  if (isElse) return 'its block has ended'
  return `its match does not fit this request${keys && `; this one has no ${keys}${wayToGive(absent)}`}`
}

/** Only what is explained lacks an address, because no client sent it: real requests have one wherever the gateway says it. */
function wayToGive(keys: readonly string[]): string {
  return keys.some((key) => key.startsWith('ip:')) ? `: give its address with -H 'X-Forwarded-For: ADDRESS'` : ''
}

/** Reasons why a policy does not cover a request. */
export const MISMATCHES: Readonly<Record<string, string>> = {
  path: 'its path does not match',
  method: 'its method does not match',
  host: 'its host does not match',
  except_path: 'this path is excepted',
  domain: 'for the rate limit service only',
}

function othersText(policies: readonly ExplainedPolicyJson[]): string {
  if (policies.length === 0) return ''
  const rows = policies.slice(0, MAX_NAMED).map(({ id, why }): [string, string] => [id, MISMATCHES[why ?? ''] ?? why ?? ''])
  const rest = policies.length - rows.length
  const more = rest > 0 ? `  and ${countText(rest, 'more policy', 'more policies')}; --json lists all\n` : ''
  return `\nPolicies that do not cover it:\n${listText(rows)}${more}`
}
