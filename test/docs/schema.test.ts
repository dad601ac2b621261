import { expect, test } from 'vitest'
import { casesJsonSchema } from '../../src/offline/cases/case-schema.ts'
import { bundleJsonSchema } from '../../src/policy/schema/bundle.ts'
import { readText } from './markdown.ts'

test.each([
  ['schema/bundle.schema.json', 'src/policy/schema/bundle.ts', bundleJsonSchema],
  ['schema/cases.schema.json', 'src/offline/cases/case-schema.ts', casesJsonSchema],
] as const)('%s is what the source says', (file, source, freshSchema) => {
  const written: unknown = JSON.parse(readText(file))
  // through JSON, where what is undefined is absent
  const fresh: unknown = JSON.parse(JSON.stringify(freshSchema()))
  expect(written, `${file} is behind ${source}: run \`npm run schema\``).toEqual(fresh)
})
