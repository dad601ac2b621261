import { STATUS_CODES } from 'node:http'
import { codeBlocks, withoutCodeBlocks } from './markdown.ts'

export type Mode = 'decision_service' | 'reverse_proxy'

/** A section of a page with a whole bundle, and with what callers see under it. */
export interface Recipe {
  readonly title: string
  readonly bundle: string
  readonly modes: readonly Mode[]
  readonly exchanges: readonly Exchange[]
  /** What `edge validate` says, without file and path. */
  readonly remarks: readonly string[]
  /** Series and their values after the exchanges. */
  readonly metrics: readonly (readonly [string, number])[]
  /** Shell commands, and what they print. */
  readonly commands: string
  readonly output: string
  /** The whole section, if its commands start a service of their own. */
  readonly session: string | undefined
}

/** A request of a client and the response to it. */
export interface Exchange {
  readonly when: Circumstances
  readonly method: string
  readonly uri: string
  /** `<plan: pro, sub: ada>` in a value stands for a token with these claims. */
  readonly fields: readonly (readonly [string, string])[]
  readonly body: string | undefined
  readonly status: number
  readonly responseFields: readonly (readonly [string, string])[]
  readonly responseBody: string | undefined
  /** What the backend gets that answers, if the page shows it. */
  readonly forwarded: ForwardedRequest | undefined
}

interface ForwardedRequest {
  /** The backend's name in the bundle. */
  readonly backend: string
  readonly method: string
  readonly target: string
  readonly fields: readonly (readonly [string, string])[]
  readonly body: string | undefined
}

interface Circumstances {
  times: number
  address: string
  laterMs: number
  atMs: number | undefined
  /** How many requests like this one are in flight. */
  inFlight: number
  /** Backends of the bundle that fail, with the status and its Retry-After. */
  failing: Map<string, { readonly status: number; readonly retryAfter: string | undefined }>
}

export function recipesOf(page: string): Recipe[] {
  return sectionsOf(page).flatMap(({ title, text }) => {
    const [bundle] = codeBlocks(text, 'yaml').filter((block) => block.startsWith('bundle_version:'))
    return bundle === undefined ? [] : [recipe(title, text, bundle)]
  })
}

function recipe(title: string, text: string, bundle: string): Recipe {
  const plain = codeBlocks(text, '').flatMap((block) => block.trimEnd().split('\n'))
  const remarks = plain.filter((line) => REMARK.test(line))
  const metrics = plain.flatMap((line) => {
    const [, series, value] = METRIC.exec(line) ?? []
    return series === undefined ? [] : [[series, Number(value)] as const]
  })
  return {
    title,
    bundle,
    modes: modesOf(title, text),
    exchanges: codeBlocks(text, 'http').flatMap(exchangesOf),
    remarks,
    metrics,
    commands: codeBlocks(text, 'sh').join(''),
    session: text.includes('edge serve &') ? text : undefined,
    output: plain.filter((line) => !REMARK.test(line) && !METRIC.test(line)).join('\n'),
  }
}

const REMARK = /^(?:warning|note): /
const METRIC = /^(edge_\w+\{.*\}) (\d+)$/

function sectionsOf(page: string): { title: string; text: string }[] {
  return page
    .split(/^(?=#{2,3} )/m)
    .slice(1)
    .map((section) => ({ title: /^#+ (.*)/.exec(section)![1]!, text: section }))
}

function modesOf(title: string, text: string): Mode[] {
  const [, modes] = /[Ww]orks\sin\s(both\smodes|`\w+`)/.exec(withoutCodeBlocks(text)) ?? []
  if (modes === undefined) throw new Error(`${title} does not say in which modes it works`)
  return modes.startsWith('both') ? ['decision_service', 'reverse_proxy'] : [modes.slice(1, -1) as Mode]
}

/** Written as `curl -v` shows them, with `#` lines that say when, from where and how often, and `~` lines for what a backend gets; an empty line ends each. */
function exchangesOf(block: string): Exchange[] {
  return block
    .trimEnd()
    .split('\n\n')
    .map((text) => exchangeOf(text.split('\n')))
}

function exchangeOf(lines: readonly string[]): Exchange {
  const sent = messageOf(lines, '>')
  const received = messageOf(lines, '<')
  const [, backend, forwardedMethod, target] = /^(\S+): (\S+) (\S+)$/.exec(messageOf(lines, '~').first ?? '') ?? []
  const [method, uri] = sent.first!.split(' ') as [string, string]
  const status = Number(received.first!.slice(0, 3))
  if (received.first !== `${status} ${STATUS_CODES[status]}`) throw new Error(`not a status: ${received.first}`)
  return {
    when: circumstances(lines),
    method,
    uri,
    fields: sent.fields,
    body: sent.body,
    status,
    responseFields: received.fields,
    responseBody: received.body,
    forwarded: backend === undefined ? undefined : { ...messageOf(lines, '~'), backend, method: forwardedMethod!, target: target! },
  }
}

function messageOf(
  lines: readonly string[],
  mark: string,
): { first: string | undefined; fields: [string, string][]; body: string | undefined } {
  const [first, ...rest] = lines.filter((line) => line.startsWith(mark)).map((line) => line.slice(2))
  const end = rest.indexOf('')
  const head = end < 0 ? rest : rest.slice(0, end)
  return {
    first,
    fields: head.map((line) => line.split(/: (.*)/s, 2) as [string, string]),
    body: end < 0 ? undefined : rest.slice(end + 1).join('\n'),
  }
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, min: 60, h: 3600 }

function circumstances(lines: readonly string[]): Circumstances {
  const found: Circumstances = { times: 1, address: '192.0.2.1', laterMs: 0, atMs: undefined, inFlight: 0, failing: new Map() }
  const clauses = lines.filter((line) => line.startsWith('#')).flatMap((line) => line.slice(2).split(', '))
  for (const clause of clauses) {
    const [, times] = /^(\d+) times$/.exec(clause) ?? []
    const [, address] = /^from (\S+)$/.exec(clause) ?? []
    const [, amount, unit] = /^(\d+) (s|min|h) later$/.exec(clause) ?? []
    const [, moment] = /^at (\S+)$/.exec(clause) ?? []
    const [, inFlight] = /^while (\d+) others are in flight$/.exec(clause) ?? []
    const [, failing, status, retryAfter] = /^while (\S+) answers (\d{3})(?: with Retry-After: (\d+))?$/.exec(clause) ?? []
    if (times !== undefined) found.times = Number(times)
    else if (address !== undefined) found.address = address
    else if (unit !== undefined) found.laterMs += Number(amount) * SECONDS[unit]! * 1000
    else if (moment !== undefined) found.atMs = Date.parse(moment)
    else if (inFlight !== undefined) found.inFlight = Number(inFlight)
    else if (failing !== undefined) found.failing.set(failing, { status: Number(status), retryAfter })
    else throw new Error(`what does this mean: ${clause}`)
  }
  return found
}
