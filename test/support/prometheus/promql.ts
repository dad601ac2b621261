/** A metric in a query, with the matchers in its braces. */
interface Selector {
  readonly metric: string
  readonly matchers: readonly Matcher[]
}

interface Matcher {
  readonly label: string
  readonly operator: string
  readonly value: string
}

/** What an aggregation keeps, or a join compares, and the metrics that must have it. */
interface Grouping {
  readonly labels: readonly string[]
  readonly metrics: readonly string[]
}

interface Query {
  readonly selectors: readonly Selector[]
  readonly groupings: readonly Grouping[]
}

const TOKEN = /"(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^\]]*\]|\d[\w.]*|[a-zA-Z_:][\w:]*|[()]|[^\s]/g
const NAME = /^[a-zA-Z_:][\w:]*$/
const WORDS = new Set(['and', 'or', 'unless', 'offset', 'bool', 'by', 'without', 'on', 'ignoring', 'group_left', 'group_right'])
const WITH_LABELS = new Set(['by', 'on', 'group_left', 'group_right'])
const AGGREGATIONS = new Set(['sum', 'min', 'max', 'avg', 'count', 'topk'])

/** The metrics and labels that a query names. It must be written as `sum by (label) (…)`: what is grouped comes after. promtool checks the rest. */
export function readQuery(text: string): Query {
  const tokens: readonly string[] = text.match(TOKEN) ?? []
  const groupings: Grouping[] = []
  for (const [i, token] of tokens.entries()) {
    if (!WITH_LABELS.has(token) || tokens[i + 1] !== '(') continue
    const close = tokens.indexOf(')', i)
    const labels = tokens.slice(i + 2, close).filter((each) => each !== ',')
    if (token === 'by' && tokens[close + 1] !== '(') throw new Error(`expected what is grouped after by (…): ${text}`)
    const scope = token === 'by' ? tokens.slice(close + 1, closingOf(tokens, close + 1)) : tokens
    groupings.push({ labels, metrics: selectorsIn(scope).map(({ metric }) => metric) })
  }
  return { selectors: selectorsIn(tokens), groupings }
}

function closingOf(tokens: readonly string[], open: number): number {
  let depth = 0
  for (let i = open; i < tokens.length; i++) {
    if (tokens[i] === '(') depth++
    if (tokens[i] === ')' && --depth === 0) return i
  }
  throw new Error(`a parenthesis is not closed: ${tokens.join(' ')}`)
}

function selectorsIn(tokens: readonly string[]): Selector[] {
  const found: Selector[] = []
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!
    if (WITH_LABELS.has(token) && tokens[i + 1] === '(') i = tokens.indexOf(')', i)
    else if (NAME.test(token) && !WORDS.has(token) && !AGGREGATIONS.has(token) && tokens[i + 1] !== '(') {
      found.push({ metric: token, matchers: matchersIn(tokens[i + 1] ?? '') })
    }
  }
  return found
}

function matchersIn(braces: string): Matcher[] {
  if (!braces.startsWith('{')) return []
  return Array.from(braces.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g), ([, label, operator, value]) => ({
    label: label!,
    operator: operator!,
    value: value!,
  }))
}
