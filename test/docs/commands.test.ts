import { expect, test } from 'vitest'
import { markdownFiles, readText } from './markdown.ts'

const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> }

test.each(markdownFiles())('every npm script that %s names exists', (file) => {
  const named = [...readText(file).matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(start|test)\b)/g)].map((match) => match[1] ?? match[2]!)
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
})
