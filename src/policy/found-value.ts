import { KEY_FORMS, meantKey } from './descriptor-key.ts'
import { show } from './problem.ts'
import { closest } from './suggest.ts'

/** What was found in place of what was expected, with a suggestion where one is likely: the end of a sentence. */
export function foundValue(value: unknown, expected: string): string {
  if (value === undefined) return 'but it is missing'
  const got = `got ${show(value)}`
  if (typeof value === 'number' || typeof value === 'boolean') return expected.startsWith('a text') ? `${got} — put it in quotes?` : got
  if (typeof value !== 'string') return got
  if (expected.includes('number') && value.trim() !== '' && Number.isFinite(Number(value))) return `${got} — remove the quotes?`
  const choices = [...expected.matchAll(/"([^"]+)"/g)].map((match) => match[1]!)
  const suggestion = expected === KEY_FORMS ? meantKey(value) : closest(value, choices)
  return suggestion === undefined ? got : `${got} — did you mean "${suggestion}"?`
}
