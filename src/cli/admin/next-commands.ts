import type { CallerValues, SelectorJson } from '../../admin/api/types.ts'

/** A rule and one of its callers, for which commands are proposed. */
interface CommandSubject {
  readonly policy: string
  readonly rule: string
  readonly values: CallerValues
  /** Undefined where the active bundle does not have the policy. */
  readonly selector: SelectorJson | undefined
  /** Ids of overrides for this caller. */
  readonly overrides: readonly string[]
}

/** Commands with which an operator may go on, ready to be typed. None where a value is shown in part or cannot be typed. */
export function nextCommands({ policy, rule, values, selector, overrides }: CommandSubject): string[] {
  const pairs = Object.entries(values)
  const ends = overrides.map((id) => `edge override --end ${shellQuoted(id)} --reason 'why'`)
  if (pairs.some(([, value]) => value.endsWith('…') || value.includes('\\u{'))) return ends
  const subject = [policy, rule, ...pairs.map(([key, value]) => `${key}=${value}`)].map(shellQuoted).join(' ')
  const explain = selector === undefined ? undefined : explainCommand(pairs, selector)
  return [
    ...(explain === undefined ? [] : [explain]),
    // A counter is found by the credential alone, which is never shown.
    ...(pairs.some(([key]) => isCredential(key)) ? [] : [`edge counters ${subject}`]),
    // Without values, this would block everybody.
    ...(pairs.length === 0 ? [] : [`edge override ${subject} --block --until 1h --reason 'why'`]),
    ...ends,
  ]
}

/** Undefined where no request can be made up that has these values. */
function explainCommand(pairs: readonly (readonly [key: string, value: string])[], selector: SelectorJson): string | undefined {
  const { domain, methods = [], hosts = [], pathExact, pathPrefix } = selector
  if (domain !== undefined) return undefined
  const options: string[] = []
  const parameters: string[] = []
  for (const [key, value] of pairs) {
    const name = key.slice(key.indexOf(':') + 1)
    if (key === 'bearer' || key.startsWith('jwt:')) options.push('-H "Authorization: Bearer $TOKEN"')
    else if (key.startsWith('cookie:')) options.push(`-H ${shellQuoted(`Cookie: ${name}=`)}"$COOKIE"`)
    else if (isCredential(key)) options.push(`-H ${shellQuoted(`${name}: `)}"$CREDENTIAL"`)
    else if (key.startsWith('header:')) options.push(`-H ${shellQuoted(`${name}: ${value}`)}`)
    else if (key === 'ip:address') options.push(`-H ${shellQuoted(`X-Forwarded-For: ${value.replace(/\/64$/, '')}`)}`)
    else if (key.startsWith('query:')) parameters.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    else return undefined
  }
  if (methods[0] !== undefined && methods[0] !== 'GET') options.push(`-X ${shellQuoted(methods[0])}`)
  if (hosts[0] !== undefined) options.push(`--host ${shellQuoted(hosts[0].replace('*', 'www'))}`)
  const uri = `${pathExact ?? pathPrefix ?? '/'}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`
  return ['edge explain', ...new Set(options), shellQuoted(uri)].join(' ')
}

/** As in `policy/descriptor-key`, of which these commands load nothing. */
function isCredential(key: string): boolean {
  return /^(?:bearer|cookie:.*|header:(?:authorization|proxy-authorization|cookie))$/s.test(key)
}

/** One word of a POSIX shell, whatever the text contains: between single quotes nothing is special but the quote. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
