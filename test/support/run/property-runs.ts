/** How often a property is tried: so many times in `npm test`, and more often in `npm run test:full`, which sets the variable. */
export function runs(count: number): number {
  return count * Number(process.env['EDGE_TEST_PROPERTY_RUNS'] ?? 1)
}
