import { z } from 'zod'
import { bundleSchema } from './schema.ts'

/** The schema for editors: what is not in it is marked, though the service only warns. */
export function bundleJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(bundleSchema, {
    target: 'draft-7',
    io: 'input',
    override({ jsonSchema }) {
      if (jsonSchema.type === 'object') jsonSchema.additionalProperties = false
    },
  })
  return { ...schema, title: 'edge policy bundle' }
}
