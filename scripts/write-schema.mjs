// `npm run schema`: writes the files in schema/ from the schemas in the source.
import { writeFileSync } from 'node:fs'
import { casesJsonSchema } from '../dist/offline/cases/case-schema.js'
import { bundleJsonSchema } from '../dist/policy/schema/bundle.js'

write('bundle', bundleJsonSchema())
write('cases', casesJsonSchema())

function write(name, schema) {
  writeFileSync(new URL(`../schema/${name}.schema.json`, import.meta.url), `${JSON.stringify(schema, null, 2)}\n`)
}
