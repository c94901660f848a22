import com.google.gerrit.pgm.util.AbstractProgram;
import java.util.Arrays;

/** Runs a program of Gerrit, such as Init or Daemon: their own main methods are not static. */
public class GerritProgram {
  public static void main(String[] words) throws Exception {
    Class<?> named = Class.forName("com.google.gerrit.pgm." + words[0]);
    AbstractProgram program = (AbstractProgram) named.getConstructor().newInstance();
    System.exit(program.main(Arrays.copyOfRange(words, 1, words.length)));
  }
}
