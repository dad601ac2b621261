import type { CallerValues, SelectorJson } from '../../admin/api/types.ts'

/** A rule and one of its callers, for which commands are proposed. */
interface CommandSubject {
  readonly policy: string
  readonly rule: string
  readonly values: CallerValues
  /** Undefined where the active bundle does not have the rule. */
  readonly inBundle: { readonly selector: SelectorJson; readonly algorithm: string } | undefined
  /** Whether something is, or may be, taken from its counters. */
  readonly isCounted: boolean
  /** Whether it has requests in flight, which may be streams: a block leaves those alone unless it is told to end them. */
  readonly isInFlight: boolean
  /** Ids of overrides for this caller. */
  readonly overrides: readonly string[]
}

/** Rules with these algorithms have no limits, and so no counters. */
const LIMITLESS = ['block', 'unlimited']
const FOR_AN_HOUR = "--until 1h --reason 'why'"

/** Commands with which an operator may go on, ready to be typed. None where a value is shown in part or cannot be typed. */
export function nextCommands({ policy, rule, values, inBundle, isCounted, isInFlight, overrides }: CommandSubject): string[] {
  const ends = overrides.flatMap((id) => [
    `edge override --edit ${shellQuoted(id)} ${FOR_AN_HOUR}`,
    `edge override --end ${shellQuoted(id)} --reason 'why'`,
  ])
  const pairs = Object.entries(values)
  if (inBundle === undefined || pairs.some(([, value]) => !isTypeable(value))) return ends
  const { selector, algorithm } = inBundle
  const subject = [policy, rule, ...pairs.map(([key, value]) => `${key}=${value}`)]
  const explain = explainCommand(pairs, selector)
  // A counter is found by the credential alone, which is never shown.
  const hasCounter = !LIMITLESS.includes(algorithm) && !pairs.some(([key]) => isCredential(key))
  // Without values, they would change what everybody has. A second override for the same caller is refused.
  const isChangeable = pairs.length > 0 && overrides.length === 0
  const changes = [...(LIMITLESS.includes(algorithm) ? [] : ['--multiply 2']), ...(algorithm === 'unlimited' ? [] : ['--unlimited'])]
  return [
    ...(explain === undefined ? [] : [explain]),
    ...(hasCounter ? [commandText('counters', subject)] : []),
    ...(isChangeable ? changes.map((change) => commandText('override', subject, `${change} ${FOR_AN_HOUR}`)) : []),
    ...(hasCounter && isCounted && pairs.length > 0 ? [commandText('reset', subject, "--reason 'why'")] : []),
    ...(isChangeable && algorithm !== 'block'
      ? [commandText('override', subject, `--block ${isInFlight ? '--cut-streams ' : ''}${FOR_AN_HOUR}`)]
      : []),
    ...ends,
  ]
}

/** The lookup of a caller by all keys of a rule, where those in `variables` are given by variables of the shell. Undefined where a known value cannot be typed. */
export function completeLookup(policy: string, values: CallerValues, variables: Readonly<Record<string, string>>): string | undefined {
  const known = Object.entries(values).filter(([key]) => !isCredential(key))
  if (known.some(([, value]) => !isTypeable(value))) return undefined
  const hidden = Object.keys(values).filter(isCredential)
  const given = { ...Object.fromEntries(hidden.map((key) => [key, variableFor(key)])), ...variables }
  const pairs = [
    ...known.map(([key, value]) => shellQuoted(`${key}=${value}`)),
    ...Object.entries(given).map(([key, variable]) => `${shellQuoted(`${key}=`)}"$${variable}"`),
  ]
  return ['edge caller', `--policy=${shellQuoted(policy)}`, ...pairs].join(' ')
}

/** The name of a variable for a value of this key, such as `X_TEAM`. An empty one is refused, so that nobody looks up a name that stands for it. */
export function variableFor(key: string): string {
  if (key === 'bearer' || key === 'llm:key') return 'TOKEN'
  const name = key.slice(key.indexOf(':') + 1).replace(/[^A-Za-z0-9]+/g, '_')
  return (/^[A-Za-z]/.test(name) ? name : `V_${name}`).toUpperCase()
}

/** Options come first where a name would be taken for one. */
function commandText(name: string, subject: readonly string[], options = ''): string {
  const words = subject.map(shellQuoted).join(' ')
  const parts = subject.some((word) => word.startsWith('-')) ? [options, '--', words] : [words, options]
  return ['edge', name, ...parts.filter((part) => part !== '')].join(' ')
}

/** Long values are shown in part, and control characters as numbers. */
function isTypeable(value: string): boolean {
  return !value.endsWith('…') && !value.includes('\\u{')
}

/** Undefined where no request can be made up that has these values. */
function explainCommand(pairs: readonly (readonly [key: string, value: string])[], selector: SelectorJson): string | undefined {
  const { domain, methods = [], hosts = [], pathExact, pathPrefix } = selector
  if (domain !== undefined) return undefined
  const options: string[] = []
  const parameters: string[] = []
  for (const [key, value] of pairs) {
    const name = key.slice(key.indexOf(':') + 1)
    if (key === 'bearer' || key === 'llm:key' || key.startsWith('jwt:')) options.push('-H "Authorization: Bearer $TOKEN"')
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
  return /^(?:bearer|llm:key|cookie:.*|header:(?:authorization|proxy-authorization|cookie))$/s.test(key)
}

/** One word of a POSIX shell, whatever the text contains: between single quotes nothing is special but the quote. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
