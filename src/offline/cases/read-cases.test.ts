import { describe, expect, test } from 'vitest'
import { sized } from '../../../test/support/run/property-runs.ts'
import { readCases } from './read-cases.ts'

function problemsIn(text: string): string[] {
  const read = readCases(text)
  return 'cases' in read
    ? []
    : read.problems.map((problem) => `${problem.line ?? ''}: ${problem.path === '' ? '' : `${problem.path}: `}${problem.message}`)
}

/** A file with this step at line 3. */
function step(text: string): string {
  return `- name: a\n  steps:\n    - ${text}\n`
}

const REQUEST = 'request: { uri: / }'

describe('what is wrong with a file of cases is said in a sentence with its line', () => {
  test.for<[string, string, string]>([
    ['an empty file', ' \n', ': it is empty: expected a list of cases'],
    ['no cases', '[]', ': it has no cases'],
    ['an object', 'name: a', ': expected a list of cases, got an object'],
    ['broken YAML', '- name: [', ': not YAML: '],
    ['two documents', '- name: a\n---\n- name: b\n', ': not YAML: '],
    ['a name twice in an object', '- name: a\n  name: b\n', ': not YAML: duplicated mapping key'],
    ['an endless one', '&a [*a]', ': it contains itself through an alias'],
    [
      'an unknown field of a case',
      `- name: a\n  note: x\n  steps: [{ ${REQUEST}, expect: { status: 200 } }]`,
      '2: [0].note: unknown field "note": expected name, at, steps',
    ],
    ['an unknown field of a step', step(`${REQUEST}\n      expects: {}`), '4: [0].steps[0].expects: unknown field "expects"'],
    [
      'an unknown field of a request',
      step('request: { uri: /, header: {} }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.header: unknown field "header": did you mean "headers"?',
    ],
    [
      'an unknown field of what is expected',
      step(`${REQUEST}\n      expect:\n        reasons: x`),
      '5: [0].steps[0].expect.reasons: unknown field "reasons": did you mean "reason"?',
    ],
    [
      '__proto__',
      step('request: { uri: /, headers: { __proto__: x } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.headers.__proto__: unknown field "__proto__"',
    ],
    [
      'an unknown field of a caller, in a case that has nothing else to expect',
      step('request: { uri: /, caller: { team: x } }'),
      '3: [0].steps[0].request.caller.team: unknown field "team": expected id, labels',
    ],
    [
      'a misspelled field of a caller',
      step('request: { uri: /, caller: { label: { team: x } } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.caller.label: unknown field "label": did you mean "labels"?',
    ],
    [
      'no name',
      `- steps: [{ ${REQUEST}, expect: { status: 200 } }]`,
      '1: [0].name: expected a text of 1 to 200 characters, but it is missing',
    ],
    ['no steps', '- name: a\n  steps: []\n', '2: [0].steps: expected at least one step, got an empty list'],
    ['an empty expectation', step(`${REQUEST}\n      expect: {}`), '2: [0].steps: expected at least one step that expects something'],
    ['nothing is expected', step(REQUEST), '2: [0].steps: expected at least one step that expects something, got a list'],
    [
      'no request',
      step('expect: { status: 200 }'),
      '3: [0].steps[0].request: expected a request (an object with method and uri), but it is missing',
    ],
    [
      'a method that is none',
      step('request: { method: "G T", uri: / }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.method: expected a method such as GET, got "G T"',
    ],
    [
      'a uri with a space',
      step('request: { uri: /a b }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.uri: expected a path such as /api/x?page=1, without spaces',
    ],
    [
      'a body that is no text',
      step('request: { uri: /, body: { a: 1 } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.body: expected a text, got an object',
    ],
    [
      'a line break in a header',
      step('request: { uri: /, headers: { x: "a\\r\\nb" } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.headers.x: expected a text without control characters',
    ],
    [
      'a number with more digits than it keeps',
      step('request: { uri: /, headers: { x: 12345678901234567890 } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.headers.x: expected a text, because a number keeps no more than 15 digits, got 12345678901234567000 — put it in quotes?',
    ],
    [
      'an object as a header',
      step(`${REQUEST}\n      expect: { headers: { x: {} } }`),
      '4: [0].steps[0].expect.headers.x: expected a text without control characters, or null for a field that must be absent, got an object',
    ],
    [
      'two hosts',
      step('request: { uri: /, host: a, headers: { Host: b } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.host: expected no host here, because headers has one too',
    ],
    [
      'claims beside an Authorization',
      step('request: { uri: /, claims: { sub: a }, headers: { AUTHORIZATION: Basic x } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.claims: expected no claims here, because headers has an Authorization, and they are sent in one, got an object',
    ],
    [
      'claims that are none',
      step('request: { uri: /, claims: [sub] }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.claims: expected an object of claims and their values, got a list',
    ],
    [
      'a claim with more digits than a number keeps',
      step('request:\n        uri: /\n        claims:\n          org: { id: 12345678901234567890 }\n      expect: { status: 200 }'),
      '6: [0].steps[0].request.claims.org.id: expected a text, because a number keeps no more than 15 digits, got 12345678901234567000 — put it in quotes?',
    ],
    [
      'a claim that is no number',
      step('request: { uri: /, claims: { id: [.nan] } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.claims.id[0]: expected a text, because a number keeps no more than 15 digits, got NaN',
    ],
    [
      'a reserved name among claims',
      step('request: { uri: /, claims: { __proto__: a } }\n      expect: { status: 200 }'),
      '3: [0].steps[0].request.claims.__proto__: unknown field "__proto__"',
    ],
    [
      'times 0',
      step(`${REQUEST}\n      times: 0\n      expect: { status: 200 }`),
      '4: [0].steps[0].times: expected a whole number from 1 to 1000000, got 0',
    ],
    [
      'times that are not a number',
      step(`${REQUEST}\n      times: .nan\n      expect: { status: 200 }`),
      '4: [0].steps[0].times: expected a whole number from 1 to 1000000, got NaN',
    ],
    [
      'too many times',
      step(`${REQUEST}\n      times: 1000001\n      expect: { status: 200 }`),
      '4: [0].steps[0].times: expected a whole number from 1 to 1000000, got 1000001',
    ],
    [
      'half a time',
      step(`${REQUEST}\n      times: 1.5\n      expect: { status: 200 }`),
      '4: [0].steps[0].times: expected a whole number from 1 to 1000000, got 1.5',
    ],
    [
      'fewer statuses than times',
      step(`${REQUEST}\n      times: 3\n      expect: { status: [200] }`),
      '5: [0].steps[0].expect.status: expected 3 statuses, because times is 3',
    ],
    [
      'a status that is none',
      step(`${REQUEST}\n      expect: { status: 42 }`),
      '4: [0].steps[0].expect.status: expected a status such as 200 or 429',
    ],
    ['a misspelled reason', step(`${REQUEST}\n      expect: { reason: quota_exeeded }`), '— did you mean "quota_exceeded"?'],
    [
      'a reason of another place',
      step(`${REQUEST}\n      expect: { reason: backend_reset }`),
      '4: [0].steps[0].expect.reason: expected one of "all_rules_passed", ',
    ],
    [
      'a duration in words',
      step(`${REQUEST}\n      after: 5 minutes\n      expect: { status: 200 }`),
      '4: [0].steps[0].after: expected a duration such as 500ms, 90s, 5m, 2h or 7d, got "5 minutes"',
    ],
    [
      'a negative duration',
      step(`${REQUEST}\n      after: -5s\n      expect: { status: 200 }`),
      '4: [0].steps[0].after: expected a duration',
    ],
    [
      'a duration without a unit',
      step(`${REQUEST}\n      after: 5\n      expect: { status: 200 }`),
      '4: [0].steps[0].after: expected a duration',
    ],
    [
      'a time after the last year',
      step(`${REQUEST}\n      after: 999999999d\n      expect: { status: 200 }`),
      '4: [0].steps[0].after: expected a time before the year 10000',
    ],
    [
      'a day that does not exist',
      `- name: a\n  at: 2026-02-30T00:00:00Z\n  steps: [{ ${REQUEST}, expect: { status: 200 } }]`,
      '2: [0].at: expected a time such as 2026-01-31T12:00:00Z, from 1970 on',
    ],
    [
      'a date before 1970',
      `- name: a\n  at: 1969-12-31T23:59:59Z\n  steps: [{ ${REQUEST}, expect: { status: 200 } }]`,
      '2: [0].at: expected a time such as',
    ],
    [
      'a date without a zone',
      `- name: a\n  at: 2026-01-01T00:00:00\n  steps: [{ ${REQUEST}, expect: { status: 200 } }]`,
      '2: [0].at: expected a time such as',
    ],
    [
      'a usage that says nothing',
      step(`${REQUEST}\n      usage: {}\n      expect: { status: 200 }`),
      '4: [0].steps[0].usage: expected at least one of prompt_tokens, completion_tokens and cost',
    ],
    [
      'more cached than sent',
      step(`${REQUEST}\n      usage: { prompt_tokens: 1, cached_tokens: 2 }\n      expect: { status: 200 }`),
      '4: [0].steps[0].usage.cached_tokens: expected no more than prompt_tokens',
    ],
    [
      'more written to a cache than sent',
      step(`${REQUEST}\n      usage: { prompt_tokens: 3, cached_tokens: 2, cache_write_tokens: 2 }\n      expect: { status: 200 }`),
      '4: [0].steps[0].usage.cache_write_tokens: expected no more than prompt_tokens without cached_tokens',
    ],
    [
      'more written for an hour than at all',
      step(`${REQUEST}\n      usage: { prompt_tokens: 3, cache_write_tokens: 1, cache_write_1h_tokens: 2 }\n      expect: { status: 200 }`),
      '4: [0].steps[0].usage.cache_write_1h_tokens: expected no more than cache_write_tokens',
    ],
  ])('%s', ([, text, problem]) => {
    expect(problemsIn(text).join('\n')).toContain(problem)
  })

  test('all of them at once, in every case', () => {
    expect(problemsIn(`- 5\n- name: a\n  steps: [{ request: {}, times: x, expect: { status: y } }]\n`)).toHaveLength(4)
  })

  test('a file with very many problems names the first ones', () => {
    const problems = problemsIn('- 5\n'.repeat(1000))
    expect(problems).toHaveLength(101)
    expect(problems.at(-1)).toBe(': there may be more')
  })

  test('so does a case with very many of them, in `npm run test:full` more than a call may have arguments', () => {
    expect(problemsIn(`- name: a\n${Array.from({ length: sized(2000, 130_000) }, (_, i) => `  a${i}: 1\n`).join('')}`)).toHaveLength(101)
  })

  test('a name as long as the file is cut', () => {
    const [problem] = problemsIn(step(`request: { uri: /, ${'x'.repeat(100_000)}: 1 }\n      expect: { status: 200 }`))
    expect(problem).toMatch(/^3: \[0\]\.steps\[0\]\.request\.x{1,200}…: unknown field "x{60}…": expected method, /)
  })

  test('requests are bounded in sum', () => {
    const text = Array.from(
      { length: 11 },
      (_, i) => `- name: c${i}\n  steps: [{ ${REQUEST}, times: 1000000, expect: { status: 200 } }]\n`,
    ).join('')
    expect(problemsIn(text)).toEqual(['21: [10]: with this case there are more than 10000000 requests in the file'])
  })
})

test('a line is that of the case, whatever is around it', () => {
  const text = `# first\n\n- name: a\n  steps: [{ ${REQUEST}, expect: { status: 200 } }]\n-\n  # second\n  { "name": "b", steps: [{ ${REQUEST}, expect: { status: 200 } }] }\n`
  const read = readCases(text)
  expect('cases' in read && read.cases.map(({ name, line }) => [name, line])).toEqual([
    ['a', 3],
    ['b', 7],
  ])
})

test('JSON is read too', () => {
  const cases = [{ name: 'a', steps: [{ request: { uri: '/' }, expect: { status: 200 } }] }]
  expect(readCases(`\ufeff${JSON.stringify(cases, null, '\t')}`)).toMatchObject({ cases })
})

test('two cases may have the same name', () => {
  expect(problemsIn(`- name: a\n  steps: &s [{ ${REQUEST}, expect: { status: 200 } }]\n- name: a\n  steps: *s\n`)).toEqual([])
})
