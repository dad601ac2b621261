import { expect, test } from 'vitest'
import { markdownFiles, readText } from './markdown.ts'

const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> }

test.each(markdownFiles())('every npm script that %s names exists', (file) => {
  const named = [...readText(file).matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(start|test)\b)/g)].map((match) => match[1] ?? match[2]!)
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
})

test('the README begins with the two commands', () => {
  const commands = readText('README.md').split('```')[1]!
  expect(commands).toMatch(/^npm ci && npm start\b/m)
  expect(commands).toMatch(/^npm ci && npm test\b/m)
})
