import { expect, test } from 'vitest'
import { bundleJsonSchema } from '../../src/policy/json-schema.ts'
import { readText } from './markdown.ts'

test('schema/bundle.schema.json is what the source says', () => {
  const written: unknown = JSON.parse(readText('schema/bundle.schema.json'))
  // through JSON, where what is undefined is absent
  const fresh: unknown = JSON.parse(JSON.stringify(bundleJsonSchema()))
  expect(written, 'schema/bundle.schema.json is behind src/policy/schema.ts: run `npm run schema`').toEqual(fresh)
})
