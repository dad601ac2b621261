import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { backtrackFlags, TOO_MANY_BACKTRACKS } from '../support/linear/backtrack-flags.ts'
import { type Expression, expressionsInSource } from '../support/linear/regular-expressions.ts'

const LENGTH = 6000
/** A linear expression needs one or two. */
const BACKTRACKS_PER_CHARACTER = 20

/** Why each of these need not be counted, or cannot be. */
const EXEMPT: Readonly<Record<string, string>> = {
  'proxy/backend/response-head.ts [^\\t\\r\\n\\x20-\\x7e\\x80-\\xff]|\\r(?!\\n)|(?<!\\r)\\n': 'one character and a look at its neighbour',
  'policy/patterns.ts ^(?=.*::|(?:[^:]*:){7}[^:]*$)[0-9a-f:.]{2,45}$': 'anchored; [^:]* ends where the next part begins',
  'proxy/downstream.ts ^::ffff:(?=\\d+\\.)': 'anchored; an address from the system',
  'proxy/incoming-request.ts \\/+$': 'the path of EDGE_BACKEND_URL, once at the start',
  'text/printable.ts (?!(?<=\\p{Extended_Pictographic}\\p{Emoji_Modifier}?)[\\ufe0e\\ufe0f]|(?<=[0-9#*])\\ufe0f\\u20e3)[\\p{C}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]|(?![ \\u3000])\\p{Zs}':
    'one character, and a look at two before it',
  'text/printable.ts (?<![ーｰ\\u3099\\u309a\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Bopo}\\p{sc=Hang}])\\u3000(?![\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Bopo}\\p{sc=Hang}])|(?<![\\p{L}\\p{M}\\p{N}])\\u3000|\\u3000(?![\\p{L}\\p{N}])':
    'one character, and a look at its neighbours',
  'llm/references.ts ^[\\s\\p{Cc}]*[a-z][a-z\\d+.-]{0,9}:\\/\\/\\S+\\s*$|^[\\s\\p{Cc}]{256}$': 'anchored; at most 256 characters',
  'telemetry/tracing/span-sender.ts \\/+$': 'the path of EDGE_OTLP_URL, once at the start',
}

const IN_SOURCE = expressionsInSource()

describe('the regular expressions of the source', () => {
  test('backtrack a few times for each character of a text, whatever nearly matches them', () => {
    const all = IN_SOURCE.filter((expression) => !(nameOf(expression) in EXEMPT))
    expect(all.length).toBeGreaterThan(50)
    expect(excesses(all, LENGTH)).toEqual([])
  })

  test('are counted: one that looks for the end of a text from each of its quotes is found', () => {
    const quadratic = { file: 'x.ts', source: '"(?:[^"\\\\]|\\\\.)*"|-?\\d+', flags: 'g' }
    const manyShortMatches = { file: 'y.ts', source: 'a(?:[^b!]|!.)*b|a', flags: 'g' }
    const linear = { file: 'z.ts', source: '"(?:[^"\\\\]|\\\\.)*"?|-?\\d+', flags: 'g' }
    const endOfRun = { file: 'w.ts', source: '\\/+$', flags: '' }
    const found = excesses([endOfRun, quadratic, manyShortMatches, linear], LENGTH).map(({ expression }) => expression.slice(0, 4))
    expect([...new Set(found)]).toEqual(['w.ts', 'x.ts', 'y.ts'])
  })

  test('that are exempt are there', () => {
    const names = IN_SOURCE.map(nameOf)
    for (const name of Object.keys(EXEMPT)) expect(names).toContain(name)
  })
})

interface Excess {
  readonly expression: string
  readonly text: string
}

interface NearMatch {
  readonly before: string
  readonly unit: string
}

/** Expressions and texts that took more backtracks than so many for each character; and expressions that cannot be counted. */
function excesses(expressions: readonly Expression[], length: number): Excess[] {
  const work = expressions.map((expression) => ({ sources: spellings(expression), texts: nearMatches(expression) }))
  const flags = ['--enable-experimental-regexp-engine', ...backtrackFlags(BACKTRACKS_PER_CHARACTER * length)]
  const script = fileURLToPath(new URL('../support/linear/count-backtracks.mjs', import.meta.url))
  const options = { input: JSON.stringify({ length, work }), encoding: 'utf8', maxBuffer: 2 ** 26 } as const
  const { stdout, stderr, status } = spawnSync(process.execPath, [...flags, script], options)
  if (status !== 0) throw new Error(stderr)
  const found: Excess[] = []
  let [number, text] = [0, 0]
  for (const line of stdout.split('\n')) {
    const [word, argument] = line.split(' ')
    if (word === 'expression') number = Number(argument)
    else if (word === 'text') text = Number(argument)
    else if (word === 'unmeasured') found.push({ expression: nameOf(expressions[Number(argument)]!), text: 'cannot be counted' })
    else if (line.startsWith(TOO_MANY_BACKTRACKS) && text >= 0) {
      found.push({ expression: nameOf(expressions[number]!), text: JSON.stringify(work[number]!.texts[text]) })
      text = -1
    }
  }
  return found
}

/**
 * The expression with loops that are counted: V8 counts none of a loop over a single character or class unless something else is in it. Counted repetitions,
 * which the counting engine may not know, go without their count, which can only make more work. One that is used again and again on a text
 * is made to do all of it at once.
 */
function spellings({ source, flags }: Expression): string[] {
  return [source, source.replace(/\{\d+(?:,\d*)?\}/g, '+')].map((one) => {
    const atoms = /(\[(?:\\.|[^\]\\])*\]|\\.|[^\\()[\]{}*+?|^$])([*+]|\{\d+(?:,\d*)?\})?/g
    const counted = one.replace(atoms, (all, atom: string, loop: string | undefined) => (loop === undefined ? all : `(?:${atom}())${loop}`))
    return flags.includes('g') ? `(?:(?:${counted})|[^])*` : counted
  })
}

/** What is repeated, and what stands before it: the words of the expression, its signs, and some characters of each kind, alone and in pairs. */
function nearMatches({ source }: Expression): NearMatch[] {
  const literal = source
    .replace(/\\[dswDSWbB]|\\x[0-9a-f]{2}|\(\?[:=!<]*|[[\](){}^$*+?|]/g, '\n')
    .replaceAll('\\\\', '\n\\')
    .replace(/\\(?=.)/g, '')
  const words = [...new Set(literal.split('\n'))].filter((word) => word !== '')
  const signs = [...new Set([...source.replace(/[A-Za-z0-9]/g, ''), ...'a0 '])]
  const pairs = signs.flatMap((one) => signs.map((other) => one + other))
  const bare = [...signs, ...pairs, ...words].map((unit) => ({ before: '', unit }))
  const others = words.flatMap((before) => bare.map(({ unit }) => ({ before, unit })))
  return [...bare, ...others]
}

function nameOf({ file, source }: Expression): string {
  return `${file} ${source}`
}
