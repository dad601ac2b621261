import { describe, expect, test } from 'vitest'
import { parseBundle } from '../../src/index.ts'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'

/**
 * Specification: Resources and their fields; the streaming object. What a bundle may say, and what holds when it says
 * nothing, is settled when it is read; streaming.test.ts shows the effect.
 */

function parse(streaming: object) {
  const rule = llmRule('r', [], { tokens_per_minute: 60, streaming })
  return parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [rule] }))))
}

/** The settings as they hold. */
function settings(streaming: object): unknown {
  const parsed = parse(streaming)
  const rule = parsed.ok ? parsed.bundle.policies[0]!.spec.rules[0]! : undefined
  return rule?.algorithm === 'token_bucket_llm' ? rule.algorithm_config.streaming : parsed
}

function problems(streaming: object): readonly string[] {
  const parsed = parse(streaming)
  return parsed.ok ? [] : parsed.problems.map(({ path, message }) => `${path.replace(/.*\.streaming\./, '')}: ${message}`)
}

describe('a streaming object', () => {
  test('[streaming-1] enabled is a bool, true by default', () => {
    expect([settings({}), settings({ enabled: false })]).toMatchObject([{ enabled: true }, { enabled: false }])
    expect(problems({ enabled: 'yes' })).toEqual(['enabled: expected true or false, got "yes"'])
  })

  test('[streaming-2] enforce_mid_stream is a bool, true by default', () => {
    expect([settings({}), settings({ enforce_mid_stream: false })]).toMatchObject([
      { enforce_mid_stream: true },
      { enforce_mid_stream: false },
    ])
    expect(problems({ enforce_mid_stream: 1 })).toEqual(['enforce_mid_stream: expected true or false, got 1'])
  })

  test('[streaming-3] buffer_tokens is an integer, 100 by default', () => {
    expect([settings({}), settings({ buffer_tokens: 20 })]).toMatchObject([{ buffer_tokens: 100 }, { buffer_tokens: 20 }])
    expect(problems({ buffer_tokens: 2.5 })).toEqual([expect.stringMatching(/^buffer_tokens: .*got 2\.5$/)])
  })

  test('[streaming-4] on_limit_exceeded is graceful_close, the default, or error_chunk', () => {
    expect([settings({}), settings({ on_limit_exceeded: 'error_chunk' })]).toMatchObject([
      { on_limit_exceeded: 'graceful_close' },
      { on_limit_exceeded: 'error_chunk' },
    ])
    expect(problems({ on_limit_exceeded: 'drop' })).toEqual(['on_limit_exceeded: expected "graceful_close" or "error_chunk", got "drop"'])
  })

  test('[streaming-5] include_partial_usage is a bool, true by default', () => {
    expect([settings({}), settings({ include_partial_usage: false })]).toMatchObject([
      { include_partial_usage: true },
      { include_partial_usage: false },
    ])
    expect(problems({ include_partial_usage: null })).toEqual(['include_partial_usage: expected true or false, got null'])
  })
})
