import { describe, expect, test } from 'vitest'
import { closest } from './suggest.ts'

const SELECTOR = ['pathPrefix', 'pathExact', 'methods', 'hosts']
const CONFIG = ['tokens_per_minute', 'tokens_per_day', 'burst_tokens', 'max_completion_tokens', 'streaming']

describe('a word looks like', () => {
  test.each([
    ['burts', ['tokens_per_second', 'burst'], 'burst'],
    ['Burst', ['tokens_per_second', 'burst'], 'burst'],
    ['brust', ['tokens_per_second', 'burst'], 'burst'],
    ['mod', ['mode', 'selector', 'rules'], 'mode'],
    ['mdoe', ['mode', 'selector', 'rules'], 'mode'],
    ['rule', ['mode', 'selector', 'rules'], 'rules'],
    ['pathprefix', SELECTOR, 'pathPrefix'],
    ['path-prefix', SELECTOR, 'pathPrefix'],
    ['PATH_EXACT', SELECTOR, 'pathExact'],
    ['pathPrefx', SELECTOR, 'pathPrefix'],
    ['host', SELECTOR, 'hosts'],
    ['hostes', SELECTOR, 'hosts'],
    ['max_completoin_tokns', CONFIG, 'max_completion_tokens'],
    ['tokens_per_min', CONFIG, 'tokens_per_minute'],
    ['token_per_day', CONFIG, 'tokens_per_day'],
    ['tokensPerDay', CONFIG, 'tokens_per_day'],
    ['stream', CONFIG, 'streaming'],
    ['Enforce', ['enforce', 'shadow'], 'enforce'],
    ['enforced', ['enforce', 'shadow'], 'enforce'],
    ['shadwo', ['enforce', 'shadow'], 'shadow'],
  ])('%j, of %j: %j', (word, known, expected) => {
    expect(closest(word, known)).toBe(expected)
  })
})

describe('a word looks like none of them, or means something else', () => {
  test.each([
    ['description', SELECTOR],
    ['x', SELECTOR],
    ['', SELECTOR],
    ['a', ['mode']],
    ['owner', CONFIG],
    ['mode', []],
    ['ho', SELECTOR],
    ['x'.repeat(1000), CONFIG],
    ['notPathPrefix', SELECTOR],
    ['nopathprefix', SELECTOR],
    ['pathSuffix', SELECTOR],
    ['pathExcept', SELECTOR],
    ['not_hosts', SELECTOR],
    ['!hosts', SELECTOR],
    ['-hosts', SELECTOR],
    ['hosts!', SELECTOR],
    ['nomethods', SELECTOR],
    ['tokens_per_month', CONFIG],
    ['tokens_per_hour', CONFIG],
    ['min_completion_tokens', CONFIG],
    ['minCompletionTokens', CONFIG],
    ['mincompletiontokens', CONFIG],
    ['disabled', ['enabled']],
    ['unenforced', ['enforce', 'shadow']],
    ['__proto__', CONFIG],
  ])('%j, of %j', (word, known) => {
    expect(closest(word, known)).toBeUndefined()
  })
})

test('of two that are near, the nearer one is meant', () => {
  expect(closest('tokens_per_daz', ['tokens_per_dxx', 'tokens_per_day'])).toBe('tokens_per_day')
  expect(closest('token_bucket_lm', ['token_bucket', 'token_bucket_llm'])).toBe('token_bucket_llm')
})
