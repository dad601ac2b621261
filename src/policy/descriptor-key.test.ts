import { describe, expect, test } from 'vitest'
import { KEY_PATTERN, meantKey, parseDescriptorKey } from './descriptor-key.ts'

describe('a descriptor key', () => {
  test.each([
    ['header:X-Key', { kind: 'header', text: 'header:x-key', name: 'x-key' }],
    ['query:Api Key', { kind: 'query', text: 'query:Api Key', nameBytes: 'Api Key' }],
    ['query:ä', { kind: 'query', text: 'query:ä', nameBytes: '\xc3\xa4' }],
    ['query::', { kind: 'query', text: 'query::', nameBytes: ':' }],
    ['cookie:Sid', { kind: 'cookie', text: 'cookie:Sid', name: 'Sid' }],
    ['path:1', { kind: 'path', text: 'path:1', segment: 1 }],
    ['path:32', { kind: 'path', text: 'path:32', segment: 32 }],
    ['llm:model', { kind: 'model', text: 'llm:model' }],
    ['context:Tier 1', { kind: 'context', text: 'context:Tier 1', name: 'Tier 1' }],
  ])('is read: %s', (text, key) => {
    expect(parseDescriptorKey(text)).toEqual(key)
    expect(text).toMatch(new RegExp(KEY_PATTERN))
  })

  test.each([
    'query:',
    'query:a\nb',
    'query:\ud800',
    'query',
    'cookie:',
    'cookie:a b',
    'cookie:a=b',
    'cookie:a;b',
    'cookie:ä',
    'path:',
    'path:0',
    'path:01',
    'path:33',
    'path:-1',
    'path:1.5',
    'path:1e1',
    'path: 1',
    'path:a',
    'context:',
    'context:a\nb',
    'context:\ud800',
    'context',
    'llm:',
    'llm:models',
    'llm:Model',
    'Query:a',
    'body:model',
  ])('is not %j', (text) => {
    expect(parseDescriptorKey(text)).toBeUndefined()
  })
})

describe('a misspelled descriptor key', () => {
  test.each([
    ['X-Api-Key', 'header:x-api-key'],
    ['Headers:X-Key', 'header:x-key'],
    ['cookies:Sid', 'cookie:Sid'],
    ['qurey:a:b', 'query:a:b'],
    ['llm:modle', 'llm:model'],
    ['contxt:tier', 'context:tier'],
    ['ip:adress', 'ip:address'],
    ['bearrer', 'bearer'],
  ])('%s is recognized', (text, meant) => {
    expect(meantKey(text)).toBe(meant)
  })

  test.each(['plan', 'path:0', 'path:tenant', 'ip:city', 'body:model', 'x- key', ':', ''])('nothing is guessed from %j', (text) => {
    expect(meantKey(text)).toBeUndefined()
  })
})
