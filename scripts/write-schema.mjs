// `npm run schema`: writes schema/bundle.schema.json from the one schema in the source.
import { writeFileSync } from 'node:fs'
import { bundleJsonSchema } from '../dist/policy/json-schema.js'

writeFileSync(new URL('../schema/bundle.schema.json', import.meta.url), `${JSON.stringify(bundleJsonSchema(), null, 2)}\n`)
