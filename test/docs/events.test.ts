import { expect, test } from 'vitest'
import { placeOf } from '../../console/overview/problem-places.ts'
import { BACKEND_PROBLEMS } from '../../src/admin/endpoints/backend-report.ts'
import { PROBLEM_CODES, PROBLEM_EVENTS } from '../../src/control/problems.ts'
import { REQUESTS_SILENT } from '../../src/control/silent-requests.ts'
import { EVENTS_DROPPED, PUBLISHED_EVENTS } from '../../src/telemetry/events/published-events.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

test('docs/operations/events.md lists every event that can be watched, and no other', () => {
  const listed = tableRows(readText('docs/operations/events.md'), ['About', 'Watched events']).flatMap(([, events]) => codeWords(events!))
  expect(listed.toSorted()).toEqual([...PUBLISHED_EVENTS, EVENTS_DROPPED].toSorted())
})

test('every event that can be watched is one of the log', () => {
  const logged = tableRows(readText('docs/operations/logs.md'), ['Event', 'Level', 'What happened', 'Fields']).flatMap(([event]) =>
    codeWords(event!),
  )
  expect([...PUBLISHED_EVENTS].filter((name) => !logged.includes(name))).toEqual([])
})

test('docs/runbook.md says of every problem what it means', () => {
  const listed = tableRows(readText('docs/runbook.md'), ['Problem', 'What it means', 'What to do']).flatMap(([codes]) => codeWords(codes!))
  expect(listed.toSorted()).toEqual([...PROBLEM_CODES, ...BACKEND_PROBLEMS, REQUESTS_SILENT].toSorted())
})

test('every event that a problem begins or ends with can be watched', () => {
  expect([...PROBLEM_EVENTS].filter((name) => !PUBLISHED_EVENTS.has(name))).toEqual([])
})

test('the page names sections of docs/runbook.md for its problems', () => {
  const sections = Array.from(readText('docs/runbook.md').matchAll(/^## (.+)$/gm), ([, title]) => title)
  for (const code of [...PROBLEM_CODES, ...BACKEND_PROBLEMS, REQUESTS_SILENT]) expect(sections).toContain(placeOf(code).section)
})
