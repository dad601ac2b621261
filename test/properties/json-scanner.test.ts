import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { characters } from '../../src/llm/dialects/dialect.ts'
import { type JsonEvents, JsonScanner } from '../../src/llm/json-scanner.ts'
import type { JsonString } from '../../src/llm/json-string.ts'
import { LlmRequestReader } from '../../src/llm/llm-request.ts'
import { LlmResponseReader } from '../../src/llm/llm-response.ts'
import {
  anyMembers,
  CUTS,
  damaged,
  isJson,
  pieces,
  type Spelled,
  spelledList,
  spelledName,
  spelledObject,
  spelledString,
  spelledValue,
} from '../support/llm/json-spelling.ts'
import { answerByTree, comparable, requestByTree } from '../support/llm/json-tree.ts'
import { runs } from '../support/run/property-runs.ts'

const LIMITS = { depth: 1000, values: 100_000 }
const NAMES = ['a', 'b', '__proto__', '1', 'constructor']

describe('the JSON scanner', () => {
  test('tells every JSON text as JSON.parse reads it, however it is spelled and cut', () => {
    fc.assert(
      fc.property(spelledValue(NAMES, false, 'medium'), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        const tree = new Tree()
        const scanner = scan(tree, bytes, cuts)
        expect(scanner.end()).toBe(true)
        expect(tree.root).toEqual(JSON.parse(bytes.toString()))
      }),
      { numRuns: runs(20) },
    )
  })

  test('takes a text for JSON exactly when JSON.parse does, and counts its characters either way', () => {
    fc.assert(
      fc.property(damaged(spelledValue(NAMES)), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        const scanner = scan(new Tree(), bytes, cuts)
        expect(scanner.end()).toBe(isJson(bytes.toString()))
        expect(scanner.spelledCharacters).toBe(characters(bytes.toString()))
      }),
      { numRuns: runs(34) },
    )
  })

  test('reads bytes of an unknown coding one character each', () => {
    fc.assert(
      fc.property(fc.oneof(spelledValue(NAMES), damaged(spelledValue(NAMES))), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        const tree = new Tree()
        const scanner = new JsonScanner(tree, LIMITS, 'latin1')
        for (const piece of pieces(bytes, cuts)) scanner.push(piece)
        expect(scanner.end()).toBe(isJson(text))
        expect(scanner.spelledCharacters).toBe(text.length)
        if (isJson(text)) expect(tree.root).toEqual(JSON.parse(text))
      }),
    )
  })
})

const PART_NAMES = [
  ...['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content', 'reasoning', 'title', 'context', 'type', 'data'],
  ...['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom'],
  ...['tools', 'code', 'action', 'operation', 'results', 'stdout', 'stderr', 'variables'],
]
const REQUEST_NAMES = [
  ...['messages', 'system', 'prompt', 'input', 'instructions', 'model', 'stream', 'n'],
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict', 'num_predict', 'max_new_tokens', 'best_of', 'n_cmpl'],
  ...[
    'tools',
    'functions',
    'response_format',
    'options',
    'parameters',
    'sampling_params',
    'extra_body',
    'metadata',
    'logit_bias',
    'image',
    'images',
  ],
]

describe('the reader of requests', () => {
  const value = fc.oneof(spelledValue(PART_NAMES, false, 'medium'), spelledList(messages()))
  const members = anyMembers(REQUEST_NAMES, value)
  const someInOtherCase = anyMembers([...REQUEST_NAMES, 'N', 'Max_Tokens', 'streaM'], value)

  test('says what JSON.parse and its tree say, unless a name that is read comes twice or in another case', () => {
    const texts = spelledObject(fc.oneof({ weight: 9, arbitrary: members }, someInOtherCase))
    fc.assert(
      fc.property(texts, CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        const read = comparable(readRequest(bytes, cuts))
        const expected = refusal(bytes) ?? requestByTree(bytes.toString())
        // Of what counts as it is written, a name that comes again counts again: JSON.parse forgets it.
        const isRepeated = typeof read === 'object' && typeof expected === 'object' && namesIn(bytes) > keysIn(JSON.parse(bytes.toString()))
        expect(isRepeated ? { ...read, promptTokens: 0 } : read).toEqual(isRepeated ? { ...expected, promptTokens: 0 } : expected)
        if (isRepeated) expect(read.promptTokens).toBeGreaterThanOrEqual(expected.promptTokens)
      }),
      { numRuns: runs(20) },
    )
  })

  test('counts what is no JSON as the tree does', () => {
    fc.assert(
      fc.property(damaged(spelledObject(members)), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        fc.pre(!isJson(bytes.toString()) && !beginsAsOtherEncoding(bytes))
        expect(comparable(readRequest(bytes, cuts))).toEqual(requestByTree(bytes.toString()))
      }),
      { numRuns: runs(14) },
    )
  })
})

describe('the reader of whole answers', () => {
  const answer = answers()

  test('says what JSON.parse and its tree say', () => {
    fc.assert(
      fc.property(fc.oneof(answer, damaged(answer)), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1')
        const reader = new LlmResponseReader()
        for (const piece of pieces(bytes, cuts)) reader.push(piece, 0, piece.length)
        expect(reader.end()).toEqual(answerByTree(bytes.toString()))
      }),
      { numRuns: runs(34) },
    )
  })

  test('has seen no more of an answer that breaks off than of all of it, and all of it one bracket before its end', () => {
    fc.assert(
      fc.property(chatAnswer(), fc.nat(1000), (text, at) => {
        const bytes = Buffer.from(text, 'latin1')
        const whole = answerByTree(bytes.toString()).characters
        const seen = brokenOff(bytes.subarray(0, at % bytes.length))
        expect(seen).toBeLessThanOrEqual(whole)
        expect(brokenOff(bytes.subarray(0, -1))).toBe(whole)
      }),
      { numRuns: runs(20) },
    )
  })
})

function readRequest(bytes: Buffer, cuts: readonly number[]): ReturnType<LlmRequestReader['end']> {
  const reader = new LlmRequestReader()
  for (const piece of pieces(bytes, cuts)) reader.push(piece, 0, piece.length)
  return reader.end()
}

function brokenOff(bytes: Buffer): number {
  const reader = new LlmResponseReader()
  reader.push(bytes, 0, bytes.length)
  return reader.breakOff().characters
}

function messages(): fc.Arbitrary<Spelled> {
  const part = member('type', fc.constantFrom('"text"', '"t\\u0065xt"', '"image"')).chain((type) =>
    spelledObject(anyMembers(PART_NAMES, spelledString()).map((members) => [...members, type])),
  )
  return spelledObject(fc.tuple(member('content', spelledList(part)), member('role', spelledString())))
}

function answers(): fc.Arbitrary<Spelled> {
  const inner = [
    'message',
    'text',
    'content',
    'refusal',
    'reasoning_content',
    'reasoning',
    'tool_calls',
    'function_call',
    'function',
    'custom',
  ]
  const names = [...inner, 'arguments', 'summary', 'thinking', 'type']
  const value = spelledValue(names, false, 'medium')
  const usageNames = ['total_tokens', 'prompt_tokens', 'input_tokens', 'completion_tokens', 'output_tokens']
  const usage = spelledObject(anyMembers(usageNames, spelledValue(names)))
  const block = spelledObject(
    fc.tuple(fc.constantFrom('text', 'thinking', 'input', 'input').chain(spelledName), spelledValue(names, true)).map((one) => [one]),
  )
  const call = spelledObject(anyMembers(['function', 'custom'], spelledObject(anyMembers(['arguments', 'input'], spelledString()))))
  const message = spelledObject(anyMembers(inner, fc.oneof(spelledString(), spelledList(call), value)))
  const choice = spelledObject(anyMembers(['message', 'text'], fc.oneof(message, spelledString())))
  const item = spelledObject(anyMembers(['arguments', 'input', 'content', 'summary'], fc.oneof(spelledString(), spelledList(message))))
  const members = fc.oneof(
    member('choices', fc.oneof(spelledList(choice), value)),
    member('output', fc.oneof(spelledList(item), value)),
    member('content', fc.oneof(spelledList(block), value)),
    member('type', fc.oneof(fc.constantFrom('"message"', '"mess\\u0061ge"'), value)),
    member('usage', fc.oneof(usage, value)),
    anyMembers(names, value).map((some) => some[0] ?? (['"x"', '1'] as const)),
  )
  return spelledObject(fc.array(members, { maxLength: 6 }))
}

/** In the order in which they are written: `type` before `content`, nothing repeated. */
function chatAnswer(): fc.Arbitrary<Spelled> {
  const message = spelledObject(fc.tuple(member('role', spelledString()), member('content', spelledString())))
  const choice = spelledObject(fc.tuple(member('message', message)))
  const block = spelledObject(fc.tuple(member('type', spelledString()), member('text', spelledString())))
  return fc.oneof(
    spelledObject(fc.tuple(member('id', spelledString()), member('choices', spelledList(choice)))),
    spelledObject(fc.tuple(member('type', fc.constant('"message"')), member('content', spelledList(block)))),
  )
}

function member(name: string, value: fc.Arbitrary<Spelled>): fc.Arbitrary<readonly [Spelled, Spelled]> {
  return fc.tuple(spelledName(name), value)
}

/** A name of the outermost object that is read comes more than once, or in another case. */
function refusal(bytes: Buffer): 'repeated_descriptor' | 'bad_request' | undefined {
  const names = outermostNames(bytes)
  const read = names.filter((name) => REQUEST_NAMES.includes(name))
  if (new Set(read).size < read.length) return 'repeated_descriptor'
  return names.some(isInOtherCase) ? 'bad_request' : undefined
}

/** A byte order mark, or a zero among the first two bytes: the reader takes what follows for UTF-16 or skips the mark, and the tree does not. */
function beginsAsOtherEncoding(bytes: Buffer): boolean {
  return bytes.subarray(0, 2).includes(0) || [0xef, 0xfe, 0xff].includes(bytes[0]!)
}

function namesIn(bytes: Buffer): number {
  let count = 0
  const events: JsonEvents = { name: () => count++, string: () => {}, number: () => {}, literal: () => {}, begin: () => {}, end: () => {} }
  new JsonScanner(events, LIMITS).push(bytes)
  return count
}

function keysIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return (Array.isArray(value) ? 0 : Object.keys(value).length) + Object.values(value).reduce((sum: number, each) => sum + keysIn(each), 0)
}

function outermostNames(bytes: Buffer): string[] {
  const tree = new Tree()
  const scanner = new JsonScanner(tree, LIMITS)
  scanner.push(bytes)
  expect(scanner.end()).toBe(true)
  return tree.outermostNames
}

function isInOtherCase(name: string): boolean {
  return !REQUEST_NAMES.includes(name) && REQUEST_NAMES.some((known) => new RegExp(`^${known}$`, 'iu').test(name))
}

function scan(tree: Tree, bytes: Buffer, cuts: readonly number[]): JsonScanner {
  const scanner = new JsonScanner(tree, LIMITS)
  for (const piece of pieces(bytes, cuts)) scanner.push(piece)
  return scanner
}

/** Builds what a scanner tells. */
class Tree implements JsonEvents {
  root: unknown
  readonly outermostNames: string[] = []
  readonly #open: (unknown[] | Record<string, unknown>)[] = []
  #names: string[] = []

  name(name: JsonString): void {
    if (this.#open.length === 1) this.outermostNames.push(name.text()!)
    this.#names.push(name.text()!)
  }

  string(string: JsonString): void {
    expect(string.characters).toBe(characters(string.text()!))
    expect(string.writtenCharacters).toBe(characters(JSON.stringify(string.text())) - 2)
    this.#add(string.text())
  }

  number(number: JsonString): void {
    this.#add(number.numberValue())
  }

  literal(value: boolean | null): void {
    this.#add(value)
  }

  begin(isObject: boolean): void {
    this.#open.push(isObject ? {} : [])
  }

  end(isEmpty: boolean): void {
    const done = this.#open.pop()!
    expect(isEmpty).toBe(Object.keys(done).length === 0)
    this.#add(done)
  }

  #add(value: unknown): void {
    const container = this.#open.at(-1)
    if (container === undefined) this.root = value
    else if (Array.isArray(container)) container.push(value)
    // An own property, whatever its name.
    else Object.defineProperty(container, this.#names.pop()!, { value, writable: true, enumerable: true, configurable: true })
  }
}
