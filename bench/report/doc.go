// Package report turns raw results of comparisons and simulations into pages that can be read:
// tables, ratios, bounds that are met or not, where another router is better, and
// bar charts. The same results give the same bytes.
package report
