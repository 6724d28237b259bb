//go:build !(faults && linux)

package faults

import "testing"

func TestAReleasedProgramTakesNoFaultsFromItsEnvironment(t *testing.T) {
	t.Setenv("DECKLOG_FAULTS_KILL", "here 1")
	t.Setenv("DECKLOG_FAULTS_HOLD", "here")
	t.Setenv("DECKLOG_FAULTS_JOURNAL", "delete")
	Point("here")
	if got := Journal(); got != "" {
		t.Errorf("the environment chose the journal %q", got)
	}
}
